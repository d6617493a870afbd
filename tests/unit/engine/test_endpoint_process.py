"""The endpoint's own process in front of a server that answers as it is told."""

import time
from pathlib import Path
from typing import Any

import pytest
from endpoint_asking import answer, answers, client_of, collect, endpoint, request
from scripted_server import (
    DONE,
    Call,
    Reply,
    as_openai,
    as_vllm,
    delta,
    in_turn,
    is_of_a_test,
    models,
    say,
    serving,
    stream,
    token,
    usage,
)

from schemas.errors import EngineError
from tasks.engine.protocol import WireGrammar

KEY = "sk-secret-of-a-user-0123456789"
GOOD = stream(delta("fi"), delta("ne", finish="stop"), usage(3, 2), DONE)
BUSY = say(429, {"error": {"message": "slow down"}}, **{"Retry-After": "0"})
BROKEN = say(500, {"error": {"message": "out of order"}})
CLOSED = Reply(cut=True, headers={"Content-Type": "text/event-stream"})


# ---------------------------------------------------------------- building


def test_a_vllm_server_is_recognized_and_asked_in_its_own_words(tmp_path: Path) -> None:
    with endpoint(tmp_path, as_vllm) as (client, server, built):
        told = built.resolved
        assert (told["dialect"], told["server_version"], told["api"]) == ("vllm", "0.32.0", "completions")
        assert (told["prompts"], told["token_counts"], told["exact_lengths"]) == ("token_ids", "token_ids", True)
        assert (told["loglikelihood"], told["resets_prefix_cache"]) == ("prompt_logprobs", True)
        assert told["max_model_len"] == 512 and "tool_calls" in told["guides"]
        assert told["url"] == f"{server.url}/v1"
        assert {"process_start_s", "import_s", "first_token_s", "build_s"} <= built.phases.keys()
        found = answers(client, request("free", ignore_eos=True), request("scored", start=2))
        assert (found["free"].token_ids, found["free"].text, found["free"].tries) == ([7, 8, 9], "ab", 1)
        assert found["free"].gap_tokens == [2] and found["free"].finish_reason == "stop"
        assert found["scored"].logprobs == [-1.5, -2.0]
        assert {call.body.get("ignore_eos") for call in server.asked} == {True, None}
        client.reset_prefix_cache()
        assert ("POST", "/reset_prefix_cache") in [(call.method, call.path) for call in server.calls]


def test_an_unknown_server_is_asked_by_chat_for_what_openai_has(tmp_path: Path) -> None:
    with endpoint(tmp_path, as_openai) as (client, server, built):
        told = built.resolved
        assert (told["dialect"], told["api"], told["prompts"]) == ("openai", "chat", "messages")
        assert (told["token_counts"], told["guides"]) == ("usage", ["json_schema", "json_object"])
        assert not told["resets_prefix_cache"] and not told["exact_lengths"]
        assert any("exact length" in words for words in told["unsupported"])
        found = answers(
            client,
            request("free"),
            request("exact", ignore_eos=True),
            request("scored", start=2),
            request("guided", grammar=WireGrammar(kind="regex", content="a+")),
        )
        assert (found["free"].text, found["free"].token_ids, found["free"].output_tokens) == ("ab", [], 2)
        assert all(found[name].refused and found[name].tries == 0 for name in ("exact", "scored", "guided"))
        assert len(server.asked) == 1, "what cannot be said is not sent without it"
        with pytest.raises(EngineError, match="cannot forget its cached prefixes: the server has no call for it"):
            client.reset_prefix_cache()


def test_a_server_that_ignores_grammars_gets_none(tmp_path: Path) -> None:
    def ignores(call: Call) -> Reply | None:
        return GOOD if call.is_asked else as_openai(call)

    with endpoint(tmp_path, ignores) as (client, server, built):
        assert built.resolved["guides"] == []
        assert any("taken and not obeyed" in words for words in built.resolved["unsupported"])
        schema = WireGrammar(kind="json_schema", content='{"type": "object"}')
        refused = answer(client, request("guided", grammar=schema))
        assert refused.refused and "has no form for it" in str(refused.error)
        assert server.asked == []


def test_fields_that_a_server_will_not_have_are_left_out(tmp_path: Path) -> None:
    def strict(call: Call) -> Reply | None:
        if not call.is_asked:
            return as_openai(call)
        body = call.body
        for field, words in (
            ("stream_options", "Unrecognized request argument: stream_options"),
            ("max_tokens", "Unsupported parameter: use 'max_completion_tokens' instead"),
            ("temperature", "Unsupported value: 'temperature' does not support 0 with this model"),
        ):
            if field in body:
                return say(400, {"error": {"message": words}})
        return as_openai(call)

    with endpoint(tmp_path, strict) as (client, server, built):
        assert any("`temperature` and `top_p`" in words for words in built.resolved["unsupported"])
        assert answer(client, request("drawn", temperature=1.0)).error is None
        assert server.asked[0].body["max_completion_tokens"] == 77
        assert answer(client, request("greedy")).refused


def test_token_ids_that_a_server_does_not_take_become_text(tmp_path: Path) -> None:
    def only_text(call: Call) -> Reply | None:
        if call.path.endswith("/models"):
            return models(owned_by="llamacpp", meta={"n_ctx": 4096})
        if call.is_asked and not isinstance(call.body["prompt"], str):
            return say(422, {"detail": "prompt: str type expected"})
        return as_openai(call)

    with endpoint(tmp_path, only_text) as (client, server, built):
        assert (built.resolved["dialect"], built.resolved["prompts"]) == ("llamacpp", "text")
        assert built.resolved["max_model_len"] == 4096
        assert answer(client).text == "ab" and server.asked[0].body["prompt"] == "asked by a test one"


@pytest.mark.parametrize("at", ["", "/v1"])
def test_the_address_may_lack_its_v1(tmp_path: Path, at: str) -> None:
    with endpoint(tmp_path, as_openai, at=at) as (_, server, built):
        assert built.resolved["url"] == f"{server.url}/v1"


def test_an_api_may_be_anywhere(tmp_path: Path) -> None:
    def deep(call: Call) -> Reply | None:
        return as_openai(call) if call.path.startswith("/a/b/") and "/v1" not in call.path else None

    with endpoint(tmp_path, deep, at="/a/b") as (_, server, built):
        assert built.resolved["url"] == f"{server.url}/a/b"


@pytest.mark.parametrize(
    ("reply", "options", "words"),
    [
        (say(401, {}), {}, r"does not take a call without a key \(`api_key_env`\) \(HTTP 401\)"),
        (say(403, {}), {"api_key_env": "TEST_KEY"}, r"does not take the key in TEST_KEY \(HTTP 403\)"),
        (None, {}, r"there is no API at .*/v1/models and .*/models is not found .* often with /v1"),
        (models("tiny-2", "other"), {}, "has no model `tiny`; did you mean `tiny-2`"),
        (models("x", "y"), {}, "has no model `tiny`; known: x, y"),
        (say(200, b"<html>hello</html>"), {}, "gives no list of models .HTTP 200.: <html>hello"),
        (say(503, b"loading"), {"retries": {"tries": 2, "first_wait_s": 0.01}}, "gives no list of models .HTTP 503"),
        (say(302, {}, Location="https://elsewhere/v1"), {}, "redirects to https://elsewhere/v1.*write that address"),
        (models(), {"api_key_env": "NOT_SET_ANYWHERE"}, "NOT_SET_ANYWHERE, which is not set: export NOT_SET_ANYWHERE"),
        (models(), {}, "gave no first token: HTTP 404"),
    ],
)
def test_why_a_server_cannot_be_used_is_said(
    tmp_path: Path, reply: Reply | None, options: dict[str, Any], words: str
) -> None:
    def answers_so(call: Call) -> Reply | None:
        return reply if call.path.endswith("/models") else None

    with serving(answers_so) as server, client_of(tmp_path, variables={"TEST_KEY": KEY}) as client:
        with pytest.raises(EngineError, match=words) as caught:
            client.build(model="tiny", options={"url": server.url, **options})
        assert KEY not in str(caught.value)


def test_a_server_that_is_not_there_is_said_to_be_so(tmp_path: Path) -> None:
    with serving(as_openai) as server:
        url = server.url
    with client_of(tmp_path) as client, pytest.raises(EngineError, match=r"cannot be reached: .*; start it first"):
        client.build(model="tiny", options={"url": url})


# ---------------------------------------------------------------- tries


@pytest.mark.parametrize("failure", [BUSY, BROKEN, CLOSED, say(408, {}), say(425, {}), say(529, {})])
def test_what_may_be_over_soon_is_asked_again(tmp_path: Path, failure: Reply) -> None:
    with endpoint(tmp_path, in_turn(failure, failure, GOOD)) as (client, server, _):
        found = answer(client)
        assert (found.text, found.error, found.tries) == ("fine", None, 3)
        assert len(server.asked) == 3 and len({call.content for call in server.asked}) == 1
        assert found.first_token_at is not None and found.first_token_at >= server.asked[2].at
        assert found.sent_at <= server.asked[0].at, "the waiting counts"


def test_tries_are_limited_and_the_last_reason_is_told(tmp_path: Path) -> None:
    retries = {"tries": 3, "first_wait_s": 0.01}
    with endpoint(tmp_path, in_turn(BROKEN), retries=retries) as (client, server, _):
        found = answer(client)
        assert found.error == "HTTP 500: out of order, after 3 tries" and not found.refused
        assert found.tries == len(server.asked) == 3


@pytest.mark.parametrize(("status", "refused"), [(400, True), (413, True), (422, True), (401, False), (404, False)])
def test_what_stays_wrong_is_not_asked_again(tmp_path: Path, status: int, refused: bool) -> None:
    with endpoint(tmp_path, in_turn(say(status, {"error": {"message": "too long"}}))) as (client, server, _):
        found = answer(client)
        assert (found.error, found.refused, found.tries) == (f"HTTP {status}: too long", refused, 1)
        assert len(server.asked) == 1


def test_a_time_that_the_server_names_is_waited_for(tmp_path: Path) -> None:
    busy = say(429, {}, **{"Retry-After": "1"})
    with endpoint(tmp_path, in_turn(busy, GOOD)) as (client, server, _):
        assert answer(client).tries == 2
        assert 1.0 <= server.asked[1].at - server.asked[0].at < 2.5
    later = say(429, {}, **{"x-ratelimit-reset-requests": "1h"})
    with endpoint(tmp_path, in_turn(later, GOOD)) as (client, server, _):
        found = answer(client)
        assert "asks to wait for 3600 s" in str(found.error) and len(server.asked) == 1


def test_an_answer_that_began_is_not_asked_again(tmp_path: Path) -> None:
    cut = stream(delta("fi"), cut=True)
    said = stream(delta("fi"), b'data: {"error": {"message": "out of memory"}}\n\n', DONE)
    given_up = stream(delta("fi"), DONE)
    with endpoint(tmp_path, in_turn(cut, said, given_up, GOOD)) as (client, server, _):
        found = [answer(client, request(name)) for name in ("cut", "said", "given up", "good")]
        assert "the connection broke within the answer" in str(found[0].error)
        assert found[1].error == "an error in the stream: out of memory"
        assert "ended within the answer" in str(found[2].error), "no reason to finish: it may be cut"
        assert found[3].error is None and len(server.asked) == 4


def test_a_state_within_the_stream_is_as_good_as_one_before_it(tmp_path: Path) -> None:
    def failing(code: int) -> Reply:
        return stream(f'data: {{"error": {{"message": "no such grammar", "code": {code}}}}}\n\n'.encode(), DONE)

    late = stream(delta("fi"), b'data: {"error": {"message": "slow down", "code": 429}}\n\n', DONE)
    with endpoint(tmp_path, in_turn(failing(400), failing(500), failing(429), GOOD, late)) as (client, server, _):
        refused = answer(client, request("refused"))
        assert (refused.error, refused.refused, refused.tries) == ("HTTP 400: no such grammar", True, 1)
        again = answer(client, request("again"))
        assert (again.error, again.tries, len(server.asked)) == (None, 3, 4)
        begun = answer(client, request("begun"))
        assert (begun.error, begun.refused, begun.tries) == ("an error in the stream: slow down", False, 1)


def test_an_answer_without_a_stream_is_an_error(tmp_path: Path) -> None:
    with endpoint(tmp_path, in_turn(say(200, {"choices": [{"text": "hello"}]}))) as (client, _, _):
        assert "no stream of events" in str(answer(client).error)


# ---------------------------------------------------------------- time


def test_each_arrival_is_stamped(tmp_path: Path) -> None:
    slow = stream((0.2, delta("a")), (0.1, delta("b")), (0.3, delta("c", finish="stop")), usage(2, 3), DONE)
    with endpoint(tmp_path, in_turn(slow)) as (client, _, _):
        found = answer(client)
        assert found.first_token_at is not None and found.last_token_at is not None
        assert (found.first_token_at - found.sent_at) * 1000 == pytest.approx(200, abs=60)
        assert found.gaps_ms == [pytest.approx(100, abs=60), pytest.approx(300, abs=60)]
        assert found.gap_tokens == [1, 1]
        assert sum(found.gaps_ms) == pytest.approx((found.last_token_at - found.first_token_at) * 1000)


@pytest.mark.parametrize(
    ("timeouts", "reply", "words"),
    [
        ({"first_token_s": 0.3}, stream((5.0, delta("a", finish="stop")), DONE), "timeouts.first_token_s"),
        ({"between_tokens_s": 0.3}, stream(delta("a"), (5.0, delta("b", finish="stop"))), "timeouts.between_tokens_s"),
        ({"total_s": 0.6}, stream(*[(0.1, delta("a")) for _ in range(50)]), "timeouts.total_s"),
    ],
)
def test_what_takes_too_long_ends(tmp_path: Path, timeouts: dict[str, float], reply: Reply, words: str) -> None:
    with endpoint(tmp_path, in_turn(reply), timeouts=timeouts) as (client, server, _):
        began = time.monotonic()
        found = answer(client)
        assert words in str(found.error) and not found.refused and found.tries == 1
        assert time.monotonic() - began < 2.5 and len(server.asked) == 1


def test_it_speaks_while_it_waits(tmp_path: Path) -> None:
    with endpoint(tmp_path, in_turn(stream((1.6, delta("a", finish="stop")), DONE))) as (client, _, _):
        client.submit([request("one")])
        told = []
        end = time.monotonic() + 10
        while not list(client.results(on_progress=told.append, wait_s=0.5)):
            assert time.monotonic() < end and client.silent_s < 1.0
        assert len(told) >= 3 and told[-1].unfinished == 1


def test_what_is_aborted_is_closed_and_does_not_answer(tmp_path: Path) -> None:
    endless = stream(*[(0.05, delta("a")) for _ in range(400)])
    with endpoint(tmp_path, in_turn(endless, endless, endless, GOOD)) as (client, server, _):
        client.submit([request(name) for name in "abc"])
        end = time.monotonic() + 10
        while server.open_now < 3:
            assert time.monotonic() < end
            time.sleep(0.02)
        client.abort_all()
        assert collect_nothing(client)
        while server.open_now:
            assert time.monotonic() < end, "the server must see that nobody listens"
            time.sleep(0.02)
        assert answer(client, request("after")).text == "fine"


def collect_nothing(client: Any) -> bool:
    return not [result for _ in range(3) for result in client.results(wait_s=0.2)]


# ---------------------------------------------------------------- a server that is gone


def test_a_server_that_fails_again_and_again_is_left_alone_until_it_is_back(tmp_path: Path) -> None:
    state = {"broken": False}

    def unsteady(call: Call) -> Reply | None:
        if state["broken"]:
            return BROKEN if call.is_asked else say(503, {})
        return as_openai(call)

    options = {"retries": {"tries": 1}, "breaker": {"failures": 4, "look_every_s": 0.3}}
    with endpoint(tmp_path, unsteady, **options) as (client, server, _):
        state["broken"] = True
        for number in range(4):
            assert answer(client, request(f"{number}")).error == "HTTP 500: out of order"
        asked = len(server.asked)
        found = answers(client, *[request(f"more {number}") for number in range(50)])
        assert {result.error for result in found.values()} == {
            "not sent: the server failed 4 times in a row, the last time so: HTTP 500: out of order"
        }
        assert len(server.asked) == asked and all(result.tries == 0 for result in found.values())
        state["broken"] = False
        time.sleep(1.0)
        assert answer(client, request("again")).error is None
        assert "the server answers again" in client.log_path.read_text()


def test_a_connection_that_is_refused_is_an_error_and_the_process_lives_on(tmp_path: Path) -> None:
    options = {"retries": {"tries": 2, "first_wait_s": 0.05}}
    with endpoint(tmp_path, as_openai, **options) as (client, server, _):
        server.stop_listening()
        found = answer(client)
        assert "no connection to the server" in str(found.error) and found.tries == 2 and not found.refused
        server.listen_again()
        assert answer(client, request("two")).text == "ab"


# ---------------------------------------------------------------- the key


def test_the_key_reaches_the_server_and_nothing_else(tmp_path: Path) -> None:
    def echoes(call: Call) -> Reply | None:
        given = call.headers.get("authorization", "")
        if not is_of_a_test(call):
            return as_openai(call)
        if b"refused" in call.content:
            return say(400, {"error": {"message": f"wrong: {given}"}})
        if b"broken" in call.content:
            return stream(delta("a"), f'data: {{"error": "{given}"}}\n\n'.encode())
        if b"elsewhere" in call.content:
            return say(307, {}, Location=f"{other.url}/v1/chat/completions?k={KEY}")
        if b"plain" in call.content:
            return say(200, f"hello {given}".encode())
        return stream(delta(f"you sent {given}"[:20]), delta(f"you sent {given}"[20:], finish="stop"), DONE)

    options = {"api_key_env": "TEST_KEY", "retries": {"tries": 1}}
    with (
        serving(as_openai) as other,
        endpoint(tmp_path, echoes, variables={"TEST_KEY": KEY}, **options) as (client, server, built),
    ):
        assert {call.headers["authorization"] for call in server.calls} == {f"Bearer {KEY}"}
        names = ("refused", "broken", "elsewhere", "plain", "answered")
        found = answers(client, *[request(name) for name in names])
        assert found["answered"].text == "you sent Bearer ***"
        assert all("***" in str(found[name].error) for name in names[:4])
        assert KEY not in repr(found) + repr(built) + client.log_path.read_text()
        assert other.calls == [], "a redirect is not followed"
        assert built.resolved["api_key_env"] == "TEST_KEY"


def test_a_build_that_fails_does_not_tell_the_key(tmp_path: Path) -> None:
    def echoes(call: Call) -> Reply | None:
        given = call.headers.get("authorization", "")
        return as_openai(call) if call.path.endswith("/models") else say(400, {"error": f"wrong key {given}"})

    with serving(echoes) as server, client_of(tmp_path, variables={"TEST_KEY": KEY}) as client:
        with pytest.raises(EngineError, match=r"gave no first token: HTTP 400: wrong key Bearer \*\*\*") as caught:
            client.build(model="tiny", options={"url": server.url, "api_key_env": "TEST_KEY"})
        died: Any = caught.value
        assert KEY not in f"{died} {died.details} {died.words} {client.log_path.read_text()}"


# ---------------------------------------------------------------- metrics


def test_the_metrics_of_a_vllm_server_are_its_steps(tmp_path: Path) -> None:
    state = {"steps": 40, "tokens": 100}

    def with_metrics(call: Call) -> Reply | None:
        if call.path == "/metrics":
            lines = [
                'vllm:num_requests_running{engine="0"} 3.0',
                'vllm:num_requests_waiting{engine="0"} 1.0',
                'vllm:kv_cache_usage_perc{engine="0"} 0.5',
                f'vllm:iteration_tokens_total_count{{engine="0"}} {state["steps"]}',
                f'vllm:generation_tokens_total{{engine="0"}} {state["tokens"]}',
                'vllm:prompt_tokens_total{engine="0"} 9',
                'vllm:prompt_tokens_cached_total{engine="0"} 0',
            ]
            return say(200, "\n".join(lines).encode())
        if is_of_a_test(call):
            state["steps"] += 2
            state["tokens"] += 3
            return stream(token("a", [7]), (0.9, token("b", [8, 9], finish="stop")), usage(1, 3), DONE)
        return as_vllm(call)

    with endpoint(tmp_path, with_metrics) as (client, server, built):
        assert built.resolved["engine_metrics"] is True
        answers(client, *[request(str(number)) for number in range(5)])
        before = len([call for call in server.calls if call.path == "/metrics"])
        counters = client.stats()
        told = client.take_steps()
        assert sum(message.totals.steps for message in told) == 10
        assert sum(message.totals.decode_tokens for message in told) == 15
        rows = [row for message in told for row in message.steps]
        assert sum(row.stands_for for row in rows) == 10 and {row.running for row in rows} == {3}
        assert counters["assay:steps"] == 10 and counters["vllm:generation_tokens"] == 115
        assert counters["assay:tries"] == 5 and counters["assay:tries_again"] == 0
        assert before <= 6, "about twice a second"
        time.sleep(1.2)
        assert len([call for call in server.calls if call.path == "/metrics"]) <= before + 3, "idle: nothing is read"


def test_other_commands_are_refused_and_it_lives_on(tmp_path: Path) -> None:
    with endpoint(tmp_path, as_vllm) as (client, _, _):
        with pytest.raises(EngineError, match="a server that others run"):
            client.reschedule(threshold=1, budget=1)
        with pytest.raises(EngineError, match="a server that others run"):
            client.make_masks(by="vllm")
        assert answer(client).text == "ab"
        assert collect(client, 0) == {}
