"""The process in which a grammar is judged that might never end: one JSON line in, one out.

It bounds itself: a timer of the kernel's ends it when an item takes too long (also in the middle of native code), its
memory has a limit, and it ends when its input does. So nothing of it outlives its parent by more than one timeout.
"""

import json
import resource
import signal
import sys
from dataclasses import asdict

from schemas.sample import Grammar
from tasks.guide.judge import judge

MEMORY_BYTES = 2 << 30


def main() -> None:
    """Answer lines until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        asked = json.loads(line)
        grammar = Grammar(grammar_id=asked["grammar_id"], kind=asked["kind"], content=asked["content"])
        signal.setitimer(signal.ITIMER_REAL, asked["timeout_s"])
        verdict = judge(grammar, asked["text"])
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.stdout.write(json.dumps(asdict(verdict)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
