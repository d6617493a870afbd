"""What the client adds to a load: an open load against the null engine, whose own times are known.

    python -m tests.bench.load [--rate 200] [--seconds 30] [--tokens 50] [--ttft-ms 20] [--tpot-ms 10] [--clients 1]

late: from when a request was due to when it was sent. added: first token - due - the script's own time, all that lies
between client and engine and back to the engine's stamp. client: from when a process was handed a request to when it
had it. Exit code 1 where the p99 of late or added is above 5 ms.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from random import Random

import numpy as np

from tasks.engine.client import EngineClient
from tasks.engine.protocol import WireRequest, WireSampling
from tasks.engine.settings import ProcessSettings
from tasks.load.arrivals import Stretch, due, gaps
from tasks.load.clients import beside
from tasks.load.send import Planned, send

MOST_MS = 5.0


def main() -> int:
    """Runs it and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--tokens", type=int, default=50)
    parser.add_argument("--ttft-ms", type=float, default=20.0)
    parser.add_argument("--tpot-ms", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=1)
    asked = parser.parse_args()
    times = due([Stretch(start=asked.rate, end=asked.rate, seconds=asked.seconds)], gaps("poisson", random=Random(0)))
    sampling = WireSampling(temperature=0.0, max_tokens=asked.tokens)
    plan = [
        Planned(
            request=WireRequest(request_id=str(number), prompt_token_ids=list(range(256)), sampling=sampling), due_s=at
        )
        for number, at in enumerate(times)
    ]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "null.log"
        with EngineClient(log_path=log, settings=ProcessSettings(cores=(), program="null")) as client:
            client.build(model="null", options={"ttft_ms": asked.ttft_ms, "tpot_ms": asked.tpot_ms})
            with beside(client, n=asked.clients) as clients:
                sent = send(clients, plan)
    late = [one.late_ms for one, _ in sent.answered]
    added = [
        (result.first_token_at - one.planned_at) * 1000 - asked.ttft_ms
        for one, result in sent.answered
        if result.first_token_at is not None and one.planned_at is not None
    ]
    each = [gap - asked.tpot_ms for _, result in sent.answered for gap in result.gaps_ms]
    print(f"{len(plan)} requests, {asked.rate:g} a second, {asked.tokens} tokens each, {asked.clients} clients")
    for name, values in (("late", late), ("added to ttft", added), ("added to a gap", each)):
        p50, p99, most = np.percentile(values, [50, 99, 100])
        print(f"{name:<16}p50 {p50:6.2f} ms  p99 {p99:6.2f} ms  max {most:6.2f} ms")
    for name in sorted({str(result.client) for _, result in sent.answered}):
        handed = [result.handed_ms for _, result in sent.answered if result.client == name]
        p50, p99, most = np.percentile([each for each in handed if each is not None], [50, 99, 100])
        print(f"{name:<16}p50 {p50:6.2f} ms  p99 {p99:6.2f} ms  max {most:6.2f} ms")
    return 0 if max(np.percentile(late, 99), np.percentile(added, 99)) <= MOST_MS else 1


if __name__ == "__main__":
    sys.exit(main())
