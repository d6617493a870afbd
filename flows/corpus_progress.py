"""How far a run over a corpus is, on the console and on Prefect's page."""

from collections import Counter
from collections.abc import Mapping, Sequence

from flows.console import RunConsole
from flows.pages import Progress
from tasks.corpus.read import Corpus
from tasks.corpus.work import Batch


class CorpusProgress:
    """A bar of schemas. done: by schema, the backends that answered in an earlier session."""

    def __init__(
        self, corpus: Corpus, *, done: Mapping[str, set[str]], backends: Sequence[str], console: RunConsole
    ) -> None:
        self._total = len(corpus.cases)
        self._done = self._before = sum(set(backends) <= done.get(case.case_id, set()) for case in corpus.cases)
        self._verdicts: dict[str, Counter[str]] = {name: Counter() for name in backends}
        self._bar = console.counting(self._total, what="asking", unit="schemas")
        self._page = Progress(self._total, what=("schemas", "schemas"))

    def __enter__(self) -> "CorpusProgress":
        self._update = self._bar.__enter__()
        self._page.__enter__()
        self._show()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._page.__exit__(*exc_info)
        self._bar.__exit__(None, None, None)

    def update(self, batch: Batch) -> None:
        """Schemas that are done, and recorded."""
        self._done += batch.cases
        for row in batch.schemas:
            self._verdicts[row["backend"]][row["verdict"]] += 1
        self._show()

    def _show(self) -> None:
        self._update(self._done, self._words())
        self._page.done(self._done)

    def said(self) -> str:
        """How it went, by backend."""
        before = f", {self._before:,} from before" if self._before else ""
        words = self._words()
        return f"{self._done:,} schemas{before}" + (f"; {words}" if words else "")

    def _words(self) -> str:
        """`xgrammar 12 wrong, 3 refused; …`: what is not right, by backend."""
        told = []
        for name, verdicts in self._verdicts.items():
            wrong = verdicts["over"] + verdicts["under"] + verdicts["both"]
            lost = verdicts["timeout"] + verdicts["crashed"] + verdicts["error"]
            of_each = ((wrong, "wrong"), (verdicts["refused"], "refused"), (lost, "lost"))
            counts = [f"{number:,} {word}" for number, word in of_each if number]
            if counts:
                told.append(f"{name} {', '.join(counts)}")
        return "; ".join(told)
