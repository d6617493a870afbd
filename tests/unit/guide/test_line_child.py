"""A child process that is asked by lines: what killing it means for who asks."""

import threading
import time
from typing import Any

from tasks.guide.line_child import LineChild

QUESTION = {"grammar_id": "g", "kind": "regex", "content": "a+", "text": "aa", "timeout_s": 5.0}
SLOW = {**QUESTION, "content": "(a|aa)+$", "text": "a" * 60 + "b", "timeout_s": 30.0}


def test_it_dies_and_another_answers() -> None:
    child = LineChild("tasks.guide.child")
    assert child.ask(QUESTION)["valid"] is True and child.process is not None
    first = child.process
    first.kill()
    first.wait()
    assert child.ask(QUESTION)["valid"] is True and child.process is not first
    child.close()


def test_killed_for_good_while_another_thread_waits() -> None:
    child = LineChild("tasks.guide.child")
    assert child.ask(QUESTION)["valid"] is True
    told: list[Any] = []

    def ask_on() -> None:
        told.append(child.ask(SLOW))
        told.append(child.bury())
        told.append(child.ask(QUESTION))

    asking = threading.Thread(target=ask_on)
    asking.start()
    time.sleep(0.3)
    assert asking.is_alive()
    child.kill()
    asking.join(timeout=5)
    assert told == [None, -9, None] and child.process is None, "no other child was started"
    child.start()
    assert child.process is None
