"""Several copies of the engine behind one socket: `python -m tasks.engine.worker.copies SOCKET SPAWNED_AT N DEVICES`.

vLLM's own data parallelism is for a server; for a model without experts it sends its user to independent engines. Each
copy is a worker process of its own, with devices (on a CPU: cores) of its own; a request goes to the copy that has the
least to do. To the flow the copies are one engine: one socket, one log, one tree of processes that ends as one.

Imports msgspec, zmq and the standard library only.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import msgspec
import zmq

from tasks.engine import protocol

_LOOK_EVERY_MS = 500
T = TypeVar("T")


class Copy:
    """One worker process, and what it has to do. tokens: of its unfinished requests, prompts and answers at their
    longest."""

    def __init__(self, index: int, *, context: zmq.Context[zmq.Socket[bytes]], folder: Path, spawned_at: str) -> None:
        address = f"ipc://{folder}/{index}"
        self.index = index
        self.socket = context.socket(zmq.PAIR)
        self.socket.setsockopt(zmq.LINGER, 2000)
        self.socket.bind(address)
        self.waiting: dict[str, int] = {}
        self._command = [sys.executable, "-m", "tasks.engine.worker", address, spawned_at]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, environment: dict[str, str]) -> None:
        """Starts the process; its output goes where this one's goes."""
        self._process = subprocess.Popen(self._command, env={**os.environ, **environment})

    @property
    def tokens(self) -> int:
        return sum(self.waiting.values())

    @property
    def exit_status(self) -> int | None:
        return None if self._process is None else self._process.poll()

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def send(self, message: protocol.ToEngine) -> None:
        self.socket.send(protocol.encode(message))


class Copies:
    """Passes on what the flow asks, and answers it with what the copies say together."""

    def __init__(self, flow: zmq.Socket[bytes], copies: list[Copy]) -> None:
        self._flow = flow
        self._copies = copies
        self._progress: dict[int, protocol.Progress] = {}
        self._answers: dict[int, deque[protocol.FromEngine]] = {copy.index: deque() for copy in copies}
        self._poller = zmq.Poller()
        for socket in (flow, *(copy.socket for copy in copies)):
            self._poller.register(socket, zmq.POLLIN)

    def run(self) -> int:
        """Until Close, or until a copy fails; the exit status."""
        while True:
            ready = dict(self._poller.poll(_LOOK_EVERY_MS))
            for copy in self._copies:
                while copy.socket in ready and copy.socket.poll(0, zmq.POLLIN):
                    if not self._from_copy(copy, protocol.decode_from_engine(copy.socket.recv())):
                        return 1
            if self._flow in ready and not self._from_flow(protocol.decode_to_engine(self._flow.recv())):
                return 0
            for copy in self._copies:
                if copy.exit_status is not None and not copy.socket.poll(0, zmq.POLLIN):
                    words = f"copy {copy.index} of the engine ended with exit status {copy.exit_status}"
                    self._send(protocol.Failed(where="engine", message=words, traceback=words))
                    return 1

    def _send(self, message: protocol.FromEngine) -> None:
        self._flow.send(protocol.encode(message))

    def _from_flow(self, message: protocol.ToEngine) -> bool:
        match message:
            case protocol.Submit():
                self._submit(message.requests)
            case protocol.Abort():
                for copy in self._copies:
                    self._abort(copy, message.request_ids)
            case protocol.Close():
                for copy in self._copies:
                    copy.send(message)
                self._wait_for_ends()
                return False
            case _:
                if isinstance(message, protocol.ResetPrefixCache):
                    self._progress.clear()  # as each copy begins to count anew
                for copy in self._copies:
                    copy.send(message)
        return True

    def _abort(self, copy: Copy, request_ids: list[str]) -> None:
        own = [each for each in request_ids if each in copy.waiting] if request_ids else list(copy.waiting)
        for request_id in own:
            del copy.waiting[request_id]
        if own or not request_ids:
            copy.send(protocol.Abort(request_ids=own))
        else:
            self._answers[copy.index].append(protocol.Done(command="abort"))
            self._answer()

    def _wait_for_ends(self) -> None:
        end = time.monotonic() + 1.5
        while time.monotonic() < end and any(copy.runs for copy in self._copies):
            time.sleep(0.02)

    def _submit(self, requests: list[protocol.WireRequest]) -> None:
        """Equal prompts one after the other, a sample's arms, go to the same copy: the second finds the first's prefix
        in its cache."""
        parts: dict[int, list[protocol.WireRequest]] = {}
        before: list[int] | None = None
        copy = self._copies[0]
        for request in requests:
            if request.prompt_token_ids != before:
                copy = min(self._copies, key=lambda each: each.tokens)
                before = request.prompt_token_ids
            copy.waiting[request.request_id] = len(request.prompt_token_ids) + request.sampling.max_tokens
            parts.setdefault(copy.index, []).append(request)
        for index, part in parts.items():
            self._copies[index].send(protocol.Submit(requests=part))

    def _from_copy(self, copy: Copy, message: protocol.FromEngine) -> bool:
        match message:
            case protocol.Results():
                for result in message.results:
                    copy.waiting.pop(result.request_id, None)
                self._send(message)
            case protocol.Progress():
                self._progress[copy.index] = message
                self._send(_sum_of_progress(self._progress.values()))
            case protocol.Steps():
                # The copies count alike; one number stands for one step of one copy.
                message.source = os.getpid()
                for step in message.steps:
                    step.step = step.step * len(self._copies) + copy.index
                self._send(message)
            case protocol.Failed():
                message.message = f"copy {copy.index}: {message.message}"
                self._send(message)
                return False
            case _:
                self._answers[copy.index].append(message)
                self._answer()
        return True

    def _answer(self) -> None:
        """Answers the flow's oldest command, once every copy has."""
        while all(self._answers.values()):
            self._send(together([answers.popleft() for answers in self._answers.values()]))


def together(answers: list[protocol.FromEngine]) -> protocol.FromEngine:
    """What all copies answered to one command, as one answer: sizes and settings of one copy, the longest of times, the
    sum of counters. A refusal by one is a refusal."""
    first = answers[0]
    refused = next((answer for answer in answers if isinstance(answer, protocol.Refused)), None)
    if refused is not None:
        return refused
    match first:
        case protocol.Hello():
            return msgspec.structs.replace(
                first, pid=os.getpid(), phases=_merged([each.phases for each in _of(protocol.Hello, answers)], max)
            )
        case protocol.Built():
            built = _of(protocol.Built, answers)
            cores = sorted({core for each in built for core in each.resolved.get("cores") or []})
            return msgspec.structs.replace(
                first,
                resolved={**first.resolved, "data_parallel_size": len(answers), "cores": cores},
                phases=_merged([each.phases for each in built], max),
            )
        case protocol.Warmed():
            warmed = _of(protocol.Warmed, answers)
            return protocol.Warmed(
                grammars=min(each.grammars for each in warmed), seconds=max(each.seconds for each in warmed)
            )
        case protocol.StatsReply():
            counters = _merged([each.counters for each in _of(protocol.StatsReply, answers)], sum)
            return protocol.StatsReply(counters=counters)
    return first


def _of(kind: type[T], answers: Iterable[object]) -> list[T]:
    return [answer for answer in answers if isinstance(answer, kind)]


def _merged(parts: list[dict[str, float]], how: Callable[[list[float]], float]) -> dict[str, float]:
    return {name: how([part[name] for part in parts if name in part]) for part in parts for name in part}


def _sum_of_progress(parts: Iterable[protocol.Progress]) -> protocol.Progress:
    every = list(parts)
    return protocol.Progress(
        output_tokens=sum(each.output_tokens for each in every),
        prompt_tokens=sum(each.prompt_tokens for each in every),
        unfinished=sum(each.unfinished for each in every),
        steps=sum(each.steps for each in every),
    )


def own_part(index: int, *, copies: int, devices: int, environment: dict[str, str]) -> dict[str, str]:
    """What copy `index` has in its environment in place of this process's: its share of the cores, and its devices.

    devices: of one copy; 0 on a CPU."""
    cores = environment["VLLM_CPU_OMP_THREADS_BIND"].split(",")
    share = cores[index * len(cores) // copies : (index + 1) * len(cores) // copies] or cores
    found = {"VLLM_CPU_OMP_THREADS_BIND": ",".join(share), "OMP_NUM_THREADS": str(len(share))}
    if devices:
        named = environment.get("CUDA_VISIBLE_DEVICES")
        visible = [str(number) for number in range(copies * devices)] if named is None else named.split(",")
        found["CUDA_VISIBLE_DEVICES"] = ",".join(visible[index * devices : (index + 1) * devices])
    return found


def main(address: str, spawned_at: str, copies: int, devices: int) -> int:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    flow = context.socket(zmq.PAIR)
    flow.setsockopt(zmq.LINGER, 2000)
    flow.connect(address)
    with tempfile.TemporaryDirectory(prefix="assay-") as folder:
        every = [Copy(index, context=context, folder=Path(folder), spawned_at=spawned_at) for index in range(copies)]
        for copy in every:
            copy.start(own_part(copy.index, copies=copies, devices=devices, environment=dict(os.environ)))
        return Copies(flow, every).run()


if __name__ == "__main__":
    code = main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    sys.stdout.flush()
    # The copies that still run are swept up by the supervisor.
    os._exit(code)
