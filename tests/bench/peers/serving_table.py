"""How far the tools agree: their means over the rounds, how far the rounds lie apart, and what is a definition."""

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.bench.peers.serving_figures import FIGURES

NOTES = {
    "a": "guidellm gives the observation at the rank, so that its p99 of fewer than 100 requests is the largest one; "
    "vllm bench and assay interpolate. `interpolated`: of guidellm's own times of the same requests, as the others do.",
    "b": "guidellm takes a token for arrived when text arrives, the others also where a token has no text yet; what it "
    "calls inter-token latency is tpot to the others. Its time per output token has the first one's wait in it and is "
    "not shown.",
    "c": "assay's time ends with the last token, guidellm's with its last request, vllm bench's when its last "
    "connection has ended. guidellm's begins with its first request, which under an open load goes out late; and of a "
    "replayed trace it leaves the last answer out, in its latencies too.",
    "d": "Under an open load assay counts from when a request was due, the others from when they sent it.",
    "e": "vllm bench's ITL is between events, assay's gap between reads; guidellm keeps neither.",
}
SERVED = (
    "The server's clock begins when it has read the request and ends before it writes the token: what a client takes "
    "for ttft beyond that is HTTP, both ways."
)


@dataclass(frozen=True, kw_only=True)
class Spread:
    """One figure of one tool over the rounds. sd: the sample's; None of one round."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def sd(self) -> float | None:
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def has(self, value: float) -> bool:
        """Whether it lies between the least and the largest of the rounds."""
        return min(self.values) <= value <= max(self.values)

    @property
    def text(self) -> str:
        sd = "" if self.sd is None else f"; sd {figure(self.sd)}"
        return f"{figure(self.mean)} ({figure(min(self.values))}–{figure(max(self.values))}{sd})"


def figure(value: float) -> str:
    """Three digits that count; more where there are more before the point."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) < 100 else f"{value:.1f}"


def notes_of(name: str, *, is_open: bool) -> str:
    """The letters of the notes that explain a figure's differences."""
    latency, _, statistic = name.partition(".")
    found = []
    if statistic.startswith("p") and latency != "gap_ms":
        found.append("a")
    if latency in ("ttft_ms", "tpot_ms"):
        found.append("b")
    if name.endswith("_per_s"):
        found.append("c")
    if is_open and latency in ("ttft_ms", "e2e_ms"):
        found.append("d")
    if latency == "gap_ms":
        found.append("e")
    return ", ".join(found)


def agreement(rounds: Mapping[str, Sequence[Mapping[str, float]]], *, ours: str, is_open: bool) -> Iterator[list[str]]:
    """The rows of a table, its head first. rounds: by tool, what it said in each round. Without our own rounds the
    peers stand beside each other."""
    peers = [name for name in rounds if name != ours]
    head = ["figure", *([ours] if ours in rounds else [])]
    for peer in peers:
        head += [peer, *([f"{ours} / it", "within its spread"] if ours in rounds else [])]
    yield [*head, "notes"]
    for name in FIGURES:
        spreads = {tool: _spread(said, name) for tool, said in rounds.items()}
        own = spreads.get(ours)
        row = [name, *([own.text if own else "–"] if ours in rounds else [])]
        for peer in peers:
            theirs = spreads[peer]
            row.append(theirs.text if theirs else "–")
            if ours in rounds:
                row += _beside(own, theirs)
        yield [*row, notes_of(name, is_open=is_open)]


def _spread(rounds: Iterable[Mapping[str, float]], name: str) -> Spread | None:
    values = [said[name] for said in rounds if name in said]
    return Spread(values=tuple(values)) if values else None


def _beside(own: Spread | None, theirs: Spread | None) -> list[str]:
    if own is None or theirs is None:
        return ["–", "–"]
    if len(theirs.values) == 1:
        return [f"{own.mean / theirs.mean:.3f}", "–"]
    inside = theirs.has(own.mean)
    away = "" if inside or not theirs.sd else f", {abs(own.mean - theirs.mean) / theirs.sd:.1f} sd away"
    return [f"{own.mean / theirs.mean:.3f}", ("yes" if inside else "no") + away]


def against_server(
    rounds: Mapping[str, Sequence[Mapping[str, float]]], served: Mapping[str, Sequence[Mapping[str, float]]]
) -> Iterator[list[str]]:
    """The rows of a table, its head first: what the server took beside each tool, by its own clock, and how much more
    the tool says of the very same answers, in milliseconds and as a ratio of the means."""
    names = sorted({name for each in served.values() for means in each for name in means}, reverse=True)
    yield ["tool", *(part for name in names for part in (f"server's {name}", "tool's - server's"))]
    for tool, said in rounds.items():
        row = [tool]
        for name in names:
            own = Spread(values=tuple(means[name] for means in served[tool]))
            theirs = Spread(values=tuple(one[name] for one in said))
            more = [one - server for one, server in zip(theirs.values, own.values, strict=True)]
            row += [own.text, f"{statistics.fmean(more):+.2f} ({theirs.mean / own.mean:.3f})"]
        yield row


def markdown(rows: Iterable[list[str]]) -> str:
    """A table as the docs have it."""
    head, *body = rows
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *body))


def explained() -> str:
    """The notes, a line each."""
    return "\n".join([*(f"{letter}: {text}" for letter, text in NOTES.items()), SERVED])
