"""Server-sent events out of any packets, and one answer out of events."""

from random import Random

import pytest
from scripted_server import DONE, delta, event, token, usage

from tasks.engine.endpoint.sse import LONGEST_LINE, Events, TooLong
from tasks.engine.endpoint.stream import Broken, Stream
from tasks.engine.protocol import WireResult

PARTS = [token("Grü", [5]), b": a comment\n\n", token("ße", [6, 7]), token("\n\n", [8], finish="length")]


def result(stream: Stream) -> WireResult:
    found = WireResult(
        request_id="r", token_ids=[], text="", finish_reason=None, stop_reason=None, sent_at=0.0, finished_at=9.0
    )
    stream.fill(found)
    return found


def fed(parts: list[bytes]) -> list[bytes]:
    events = Events()
    return [data for part in parts for data in events.feed(part)] + events.end()


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_events_are_the_same_however_they_are_cut(ending: bytes) -> None:
    whole = b"".join([*PARTS, usage(2, 4), DONE]).replace(b"\n", ending)
    wanted = fed([whole])
    assert len(wanted) == 5 and wanted[-1] == b"[DONE]"
    for seed in range(200):
        draw = Random(seed)
        cuts = sorted(draw.sample(range(1, len(whole)), draw.randint(1, 40)))
        ends = zip([0, *cuts], [*cuts, len(whole)], strict=True)
        assert fed([whole[begin:end] for begin, end in ends]) == wanted


def test_data_over_several_lines_is_one_event_and_other_fields_are_none() -> None:
    assert fed([b'id: 4\nretry: 10\nevent: message\ndata: {"choices":\ndata:[]}\n\n']) == [b'{"choices":\n[]}']
    assert fed([b"data: [DONE]"]) == [b"[DONE]"], "a server that spares the empty line at the end"
    assert fed([b"\n\n: ping\n\n"]) == []


def test_an_event_called_error_is_one_and_so_is_a_line_of_older_servers() -> None:
    for text in (b'event: error\ndata: {"message": "no"}\n\n', b'error: {"message": "no"}\n\n'):
        events = Events()
        assert events.feed(text) == [] and events.failed == b'{"message": "no"}'


def test_a_line_without_an_end_is_not_kept_for_ever() -> None:
    events = Events()
    with pytest.raises(TooLong):
        for _ in range(10):
            events.feed(b"x" * (LONGEST_LINE // 8))


def test_tokens_text_and_times_of_a_completion() -> None:
    stream = Stream()
    stream.take(fed([token("", [3])]), 1.0)
    stream.take(fed([token("Grü", [4, 5])]), 1.5)
    stream.take(fed([token("ß", [6]), token("e", [7], finish="stop"), usage(9, 5), DONE]), 1.75)
    found = result(stream)
    assert (found.text, found.token_ids, found.finish_reason) == ("Grüße", [3, 4, 5, 6, 7], "stop")
    assert (found.first_token_at, found.first_text_at, found.last_token_at) == (1.0, 1.5, 1.75)
    assert (found.gaps_ms, found.gap_tokens) == ([500.0, 250.0], [2, 2]), "what came together is one arrival"
    assert (found.prompt_tokens, found.output_tokens, stream.counts, stream.done) == (9, 5, "token_ids", True)


def test_without_token_ids_the_usage_counts_and_chunks_do_not() -> None:
    stream = Stream()
    for at, part in enumerate([delta(None, role="assistant"), delta("a"), delta("bc"), delta("d", finish="length")]):
        stream.take(fed([part]), float(at))
    alone = result(stream)
    assert (alone.output_tokens, alone.gap_tokens, stream.counts) == (None, [], "chunks")
    assert alone.first_token_at == 1.0, "a role is no token"
    stream.take(fed([usage(3, 4)]), 9.0)
    counted = result(stream)
    assert (counted.output_tokens, counted.gap_tokens, stream.counts) == (4, [], "usage"), "one of three parts had two"
    assert counted.last_token_at == 3.0, "a count is no token either"
    even = Stream()
    for at, text in enumerate("abc"):
        even.take(fed([delta(text)]), float(at))
    even.take(fed([usage(3, 3)]), 3.0)
    assert result(even).gap_tokens == [1, 1]


def test_reasoning_is_kept_apart_by_either_name() -> None:
    stream = Stream()
    stream.take(fed([delta(None, reasoning_content="hm")]), 1.0)
    stream.take(fed([delta(None, reasoning=", so")]), 2.0)
    stream.take(fed([delta("7", finish="stop")]), 3.0)
    found = result(stream)
    assert (found.reasoning, found.text) == ("hm, so", "7")
    assert (found.first_token_at, found.first_text_at) == (1.0, 3.0)


def test_the_servers_own_account_is_taken_where_it_gives_one() -> None:
    stream = Stream()
    more = {"timings": {"prompt_ms": 12.5, "predicted_ms": 40}}
    stream.take(fed([event(choices=[{"text": "a", "finish_reason": "stop", "stop_reason": 2}], **more)]), 1.0)
    details = {"prompt_tokens": 4, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 3}}
    stream.take(fed([event(choices=[], usage=details)]), 1.0)
    found = result(stream)
    assert (found.prefill_ms, found.decode_ms, found.cached_tokens, found.stop_reason) == (12.5, 40.0, 3, "2")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"not json", "no part of an answer: not json"),
        (b"[1]", "no part of an answer"),
        (b'{"choices": [{"token_ids": "x"}]}', "no part of an answer"),
        (b'{"error": {"message": "out of memory", "code": 500}}', "^out of memory$"),
        (b'{"error": "gone"}', "^gone$"),
        (b'{"error": {"code": 7}}', '"code":7'),
    ],
)
def test_an_error_within_the_stream_is_one(data: bytes, words: str) -> None:
    with pytest.raises(Broken, match=words):
        Stream().take([data], 1.0)


def test_counts_that_are_none_are_not_taken() -> None:
    stream = Stream()
    stream.take(fed([event(choices=[], usage={"completion_tokens": True, "prompt_tokens": -3})]), 1.0)
    stream.take(fed([event(choices=None, usage=None)]), 1.0)
    found = result(stream)
    assert (found.output_tokens, found.prompt_tokens, stream.counts) == (None, None, "chunks")
