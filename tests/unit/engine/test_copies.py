"""Several copies of the engine: who gets a request, and how their answers become one."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from tasks.engine import protocol
from tasks.engine.worker.copies import Copies, Copy, own_part, together


class Group:
    """A router over two copies that this test plays itself."""

    def __init__(self, folder: Path) -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.flow = self.context.socket(zmq.PAIR)
        self.flow.bind(f"ipc://{folder}/flow")
        far = self.context.socket(zmq.PAIR)
        far.connect(f"ipc://{folder}/flow")
        copies = [Copy(index, context=self.context, folder=folder, spawned_at="0") for index in range(2)]
        self.workers = [self.context.socket(zmq.PAIR) for _ in copies]
        for index, worker in enumerate(self.workers):
            worker.connect(f"ipc://{folder}/{index}")
        self.code: int | None = None
        router = Copies(far, copies)
        self._thread = threading.Thread(target=lambda: setattr(self, "code", router.run()), daemon=True)
        self._thread.start()

    def ask(self, message: protocol.ToEngine) -> None:
        self.flow.send(protocol.encode(message))

    def told(self, index: int) -> Any:
        assert self.workers[index].poll(5000)
        return protocol.decode_to_engine(self.workers[index].recv())

    def say(self, index: int, message: protocol.FromEngine) -> None:
        self.workers[index].send(protocol.encode(message))

    def heard(self) -> Any:
        assert self.flow.poll(5000)
        return protocol.decode_from_engine(self.flow.recv())

    def end(self) -> int | None:
        self._thread.join(10)
        return self.code


_KEPT: list[Group] = []
"""To the end of the tests: a context that is collected waits for its sockets, and the router's are in its thread."""


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    made = Group(tmp_path)
    yield made
    with contextlib.suppress(zmq.Again):  # its end may be gone already
        made.flow.send(protocol.encode(protocol.Close()), zmq.NOBLOCK)
    made.end()
    for socket in (made.flow, *made.workers):
        socket.close(linger=0)
    _KEPT.append(made)


def request(name: str, prompt: list[int], tokens: int = 10) -> protocol.WireRequest:
    return protocol.WireRequest(
        request_id=name,
        prompt_token_ids=prompt,
        sampling=protocol.WireSampling(temperature=0.0, max_tokens=tokens),
    )


def result(name: str) -> protocol.WireResult:
    return protocol.WireResult(
        request_id=name,
        token_ids=[1],
        text="a",
        finish_reason="stop",
        stop_reason=None,
        sent_at=0.0,
        finished_at=1.0,
    )


def names(message: protocol.Submit) -> list[str]:
    return [each.request_id for each in message.requests]


def test_a_request_goes_to_who_has_least_to_do_and_equal_prompts_stay_together(group: Group) -> None:
    long, short = [1] * 100, [2] * 5
    group.ask(protocol.Submit(requests=[request("long", long), request("a", short), request("a-guided", short)]))
    assert names(group.told(0)) == ["long"]
    assert names(group.told(1)) == ["a", "a-guided"]
    group.ask(protocol.Submit(requests=[request("b", [3]), request("c", [4]), request("d", [5])]))
    assert names(group.told(1)) == ["b", "c", "d"]
    group.say(0, protocol.Results(results=[result("long")]))
    assert [each.request_id for each in group.heard().results] == ["long"]
    group.ask(protocol.Submit(requests=[request("e", [6])]))
    assert names(group.told(0)) == ["e"]


def test_a_command_is_answered_once_all_copies_have(group: Group) -> None:
    group.ask(protocol.Stats())
    for index in (0, 1):
        assert isinstance(group.told(index), protocol.Stats)
    group.say(0, protocol.StatsReply(counters={"x": 1.0}))
    assert not group.flow.poll(300)
    group.say(1, protocol.StatsReply(counters={"x": 2.0, "y": 3.0}))
    assert group.heard().counters == {"x": 3.0, "y": 3.0}


def test_stopping_some_requests_reaches_those_who_have_them(group: Group) -> None:
    group.ask(protocol.Submit(requests=[request("a", [1] * 9), request("b", [2])]))
    assert (names(group.told(0)), names(group.told(1))) == (["a"], ["b"])
    group.ask(protocol.Abort(request_ids=["b"]))
    assert group.told(1).request_ids == ["b"]
    group.say(1, protocol.Done(command="abort"))
    assert group.heard() == protocol.Done(command="abort")
    assert not group.workers[0].poll(100)
    group.ask(protocol.Abort())
    for index in (0, 1):
        assert isinstance(group.told(index), protocol.Abort)


def test_progress_is_that_of_all(group: Group) -> None:
    group.say(0, protocol.Progress(output_tokens=5, prompt_tokens=1, unfinished=2, steps=3))
    assert group.heard().output_tokens == 5
    group.say(1, protocol.Progress(output_tokens=7, prompt_tokens=1, unfinished=0, steps=4))
    assert group.heard() == protocol.Progress(output_tokens=12, prompt_tokens=2, unfinished=2, steps=7)


def test_a_copy_that_fails_ends_all(group: Group) -> None:
    group.say(1, protocol.Failed(where="engine", message="out of memory", traceback="t"))
    said = group.heard()
    assert (said.message, said.traceback) == ("copy 1: out of memory", "t")
    assert group.end() == 1


def test_the_end_reaches_all(group: Group) -> None:
    group.ask(protocol.Close())
    for index in (0, 1):
        assert isinstance(group.told(index), protocol.Close)


def test_what_was_built_is_one_engine() -> None:
    parts: list[protocol.FromEngine] = [
        protocol.Built(resolved={"max_num_seqs": 4, "cores": [core]}, phases={"load_s": load_s}, sizes={"kv_bytes": 8})
        for core, load_s in ((0, 1.0), (1, 2.0))
    ]
    built = together(parts)
    assert isinstance(built, protocol.Built)
    assert built.resolved == {"max_num_seqs": 4, "cores": [0, 1], "data_parallel_size": 2}
    assert (built.phases, built.sizes) == ({"load_s": 2.0}, {"kv_bytes": 8})
    refused = protocol.Refused(command="reschedule", reason="no")
    assert together([protocol.Done(command="reschedule"), refused]) == refused


def test_each_copy_has_cores_and_devices_of_its_own() -> None:
    four = {"VLLM_CPU_OMP_THREADS_BIND": "0,1,2,3"}
    assert [own_part(index, copies=2, devices=0, environment=four) for index in (0, 1)] == [
        {"VLLM_CPU_OMP_THREADS_BIND": "0,1", "OMP_NUM_THREADS": "2"},
        {"VLLM_CPU_OMP_THREADS_BIND": "2,3", "OMP_NUM_THREADS": "2"},
    ]
    on_gpus = [own_part(index, copies=2, devices=2, environment=four)["CUDA_VISIBLE_DEVICES"] for index in (0, 1)]
    assert on_gpus == ["0,1", "2,3"]
    named = four | {"CUDA_VISIBLE_DEVICES": "5,GPU-7"}
    assert own_part(1, copies=2, devices=1, environment=named)["CUDA_VISIBLE_DEVICES"] == "GPU-7"
