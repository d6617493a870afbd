"""boxed_math beyond its golden cases: what hangs, dies or attacks, and properties over many made-up answers."""

import os
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import psutil
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.metric import Score
from schemas.sample import Response, Sample
from tasks.score.math.extract import NoAnswer, last_boxed, last_line, likely
from tasks.score.math.normalize import normalize
from tasks.score.math.parse import parse
from tasks.score.math.plain import as_fraction
from tasks.score.math.tree import Unreadable
from tasks.score.registry import metric

BOXED = metric("boxed_math")
SLOW_TOWER = r"\sin(e^{e^{e^{100}}})"
"""Its exponent has more digits than a computer can hold; no bound on powers of whole numbers sees it."""


def scored(*, target: object, output: str, **options: object) -> Score:
    sample = Sample(
        dataset="d",
        sample_id="s",
        row_index=0,
        raw=b"{}",
        input={},
        prompt="p",
        prompt_hash="h",
        prompt_token_ids=[1],
        target=target,
    )
    response = Response(
        request_id="r", dataset="d", sample_id="s", arm="free", kind="generate", status="ok", output=output
    )
    return BOXED.score(sample=sample, response=response, options=BOXED.Options(**options))


def equal(one: str, two: str) -> bool:
    return scored(target=one, output=f"\\boxed{{{two}}}").value == 1


def children() -> list[psutil.Process]:
    own = psutil.Process().children()
    return [child for child in own if "tasks.score.math.child" in child.cmdline()]


def test_what_hangs_costs_itself_only() -> None:
    assert equal("x+y", "y+x")
    before = {child.pid for child in children()}
    hung = scored(target="5", output=f"\\boxed{{{SLOW_TOWER}}}", timeout_s=0.3)
    assert (hung.value, hung.reason) == (0, "not decided in 0.3 s")
    started = time.monotonic()
    again = scored(target="5", output=f"\\boxed{{{SLOW_TOWER}}}", timeout_s=0.3)
    assert again.reason == hung.reason
    assert time.monotonic() - started < 0.2  # it is not tried twice
    assert equal("x+z", "z+x")
    assert before.isdisjoint(child.pid for child in children())


def test_a_child_that_was_killed_is_replaced() -> None:
    assert equal("a+b", "b+a")
    (child,) = children()
    child.kill()
    child.wait()
    assert equal("a+c", "c+a")
    assert len(children()) == 1


def test_it_does_not_outlive_its_parent() -> None:
    code = (
        "import os; from tasks.score.math.guarded import GUARD;"
        "GUARD.compare(expected='x+y', given='y+x', timeout_s=2); print(GUARD.child.process.pid, flush=True);"
        "os.kill(os.getpid(), 9)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    pid = int(ended.stdout)
    deadline = time.monotonic() + 10
    while psutil.pid_exists(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_process_that_was_forked_asks_its_own_child() -> None:
    assert equal("f+g", "g+f")
    ours = children()
    pid = os.fork()
    if pid == 0:
        os._exit(0 if equal("h+g", "g+h") else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert equal("h+f", "f+h")
    assert children() == ours


def test_sympy_stays_out_of_the_flow_process() -> None:
    code = (
        "import sys; from tasks.score.registry import metric; metric('boxed_math'); metric('ifeval');"
        "print([name for name in ('sympy', 'mpmath', 'langdetect') if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('touch {path}')",
        "open('{path}','w')",
        r"\text{{x}}.__class__",
        "exec(open)",
        "lambda:0",
        "eval(1)",
        "Symbol('x')",
        "x.subs(x,5)",
        "[5 for x in 1,2]",
        "5 if 1 else 6",
        "5;import os",
        "S(5)",
        "0x5",
        "5_0",
        "5L",
        r"\input{{/etc/passwd}}",
        r"\def\x{{5}}\x",
    ],
)
def test_code_is_no_mathematics(text: str, tmp_path: Path) -> None:
    path = tmp_path / "made"
    assert scored(target="5", output="\\boxed{" + text.format(path=path) + "}").value == 0
    assert not path.exists()


@pytest.mark.parametrize(
    "text",
    [
        "(" * 1990,
        "{" * 900 + "5" + "}" * 900,
        "|" * 1999,
        "-" * 1990 + "5",
        "!" * 1000,
        "x^" * 900 + "x",
        "a_{" * 600,
        r"\frac" * 390,
        r"\sqrt[" * 300,
        "1," * 990 + "1",
        "9" * 1999,
        "1+" * 990 + "1",
        r"\begin{matrix}" * 130,
    ],
)
def test_long_and_deep_answers_end_soon(text: str) -> None:
    started = time.monotonic()
    score = scored(target="5", output="\\boxed{" + text.replace("{", "{ ") + "}" * text.count("{") + "}")
    assert score.value == 0
    assert time.monotonic() - started < 5


def test_a_long_list_is_compared_within_its_time() -> None:
    ones = ",".join(f"x^{{{n}}}" for n in range(150))
    twos = ",".join(f"x^{{{n}}}" for n in reversed(range(150)))
    assert scored(target=ones, output=f"\\boxed{{{twos}}}", timeout_s=10).value == 1


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_gets_a_score(target: str, answer: str) -> None:
    score = scored(target=target, output=answer, extract="whole")
    assert score.value in (0, 1)


_PIECES = (
    r"\frac \sqrt { } ( ) [ ] \{ \} 1 23 x + - ^ _ , = | \pm \cup \pi < \le ! & \\ \begin{matrix} \end{matrix} \log "
    r"\infty / \text{cm} or .5 \in \binom \lfloor \rfloor \approx"
)
_LATEX = st.lists(st.sampled_from([*_PIECES.split(), "\\sin ", " "]), max_size=14).map("".join)


@settings(max_examples=400, deadline=None)
@given(_LATEX)
def test_any_latex_is_read_or_refused(text: str) -> None:
    try:
        parse(normalize(text))
    except Unreadable as error:
        assert str(error)


@settings(max_examples=150, deadline=None)
@given(_LATEX, _LATEX)
def test_equality_has_no_direction(one: str, two: str) -> None:
    first = scored(target=one, output=two, extract="whole", timeout_s=5)
    second = scored(target=two, output=one, extract="whole", timeout_s=5)
    if normalize(one) and normalize(two):
        assert first.value == second.value


@settings(max_examples=200, deadline=None)
@given(st.text(min_size=1, max_size=80) | _LATEX)
def test_every_answer_equals_itself(text: str) -> None:
    if normalize(text) and "\\boxed" not in text:
        assert scored(target=text, output=text, extract="whole").value == 1


_WHOLE = st.integers(-(10**6), 10**6)


@settings(max_examples=200, deadline=None)
@given(_WHOLE, st.integers(1, 10**4))
def test_a_fraction_in_all_its_spellings(top: int, bottom: int) -> None:
    value = Fraction(top, bottom)
    spelled = [f"{top}/{bottom}", f"\\frac{{{top}}}{{{bottom}}}", f"\\dfrac{{{3 * top}}}{{{3 * bottom}}}"]
    assert [as_fraction(normalize(text)) for text in spelled] == [value] * 3
    assert all(equal(spelled[0], text) for text in spelled)
    assert not equal(spelled[0], f"\\frac{{{top + 1}}}{{{bottom}}}")


@settings(max_examples=100, deadline=None)
@given(_WHOLE)
def test_thousands_in_all_their_spellings(value: int) -> None:
    grouped = f"{value:,}"
    spelled = [grouped, grouped.replace(",", "{,}"), grouped.replace(",", ",\\!"), grouped.replace(",", "\\,")]
    assert all(as_fraction(normalize(text)) == value for text in [*spelled, f"\\${grouped}", f"{grouped}.00"])


_X, _Y = sympy.symbols("x y", real=True)
_EXPRESSIONS = st.recursive(
    st.sampled_from([_X, _Y, sympy.pi, sympy.E, sympy.sqrt(2)]) | st.integers(-9, 9).map(sympy.Integer),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: pair[0] + pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] * pair[1]),
        st.tuples(inner, st.integers(2, 3)).map(lambda pair: pair[0] ** pair[1]),
        inner.map(sympy.cos),
        inner.map(sympy.Abs),
    ),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(_EXPRESSIONS)
def test_what_sympy_writes_is_read_back(expression: sympy.Expr) -> None:
    written = sympy.latex(expression)
    assert equal(written, sympy.latex(sympy.expand(expression)))
    assert not equal(written, f"{written} + 1")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-20, 20), min_size=2, max_size=5, unique=True), st.randoms(use_true_random=False))
def test_order_counts_in_tuples_only(values: list[int], draw: object) -> None:
    shuffled = values[1:] + values[:1]
    first, second = (", ".join(map(str, order)) for order in (values, shuffled))
    assert equal(first, second)
    assert equal(f"\\{{{first}\\}}", f"\\{{{second}\\}}")
    assert not equal(f"({first})", f"({second})")
    assert equal(f"({first})", f"\\left({first}\\right)")


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_characters="{}\\", codec="utf-8"), max_size=20), st.integers(0, 5))
def test_the_whole_box_is_taken(content: str, depth: int) -> None:
    nested = "{" * depth + content + "}" * depth
    assert last_boxed(f"so \\boxed{{1}} and $\\boxed{{{nested}}}$ }} done") == nested


@pytest.mark.parametrize("text", ["", "no box", "\\boxed", "\\boxed{", "\\boxed{a{b}", "\\boxed{1} then \\boxed{2"])
def test_no_box_is_no_answer(text: str) -> None:
    with pytest.raises(NoAnswer):
        last_boxed(text)


def test_the_likely_answer() -> None:
    assert last_line("a\nTherefore the answer is 12\n\n") == "12"
    assert last_line("Total: 12") == "12"
    assert likely("costs \\$5, so $x$ and $$y$$") == "y"
    with pytest.raises(NoAnswer):
        likely(" \n")


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ("x > 3", "y > 3", False),  # another variable says another thing
        ("x > 3", "3 < x", True),
        ("4 \\ge x > 1", "1 < x \\le 4", True),
        ("4 \\ge x > 1", "x \\in (1, 4]", True),
        ("1 < x > 4", "(1, 4)", False),  # no interval
        ("2 < 3 < x", "x > 3", False),
        ("x^2 = 4", "4 = x^2", True),
        ("x^2 = 4", "x^2 = 5", False),
        ("x \\ne 2", "2 \\ne x", True),
        ("x \\ne 2", "x = 2", False),
        ("x + y = \\pm 2", "x + y = \\mp 2", True),
        ("2x = 4 = 4y", "2x = 4 = 4y", True),
        ("x \\approx 2", "2", True),
        ("x + y \\approx 3", "x + y", True),
        ("2 = x", "x = 2", True),
        ("(1,2) \\cup (3,4)", "(1,2), (3,4)", False),  # one set, and two
        ("\\{1\\}", "1", False),
        ("\\{-1, 1\\}", "\\pm 1", True),
        ("1, 2, 2", "1, 1, 2", False),
        ("(x, y) = (1, 2)", "(1, 2, 3)", False),
        ("\\infty", "\\infty", True),
        ("\\infty", "-\\infty", False),
        ("\\sqrt{-4}", "2i", True),
        ("\\ln(-1)", "i\\pi", True),
        ("\\sqrt[3]{-27}", "-3", True),
        ("\\arcsin 1", "\\frac{\\pi}{2}", True),
        ("\\sin^{-1} 1", "\\frac{\\pi}{2}", True),
        ("\\sin -x", "-\\sin x", True),
        ("2^{-x}", "\\frac{1}{2^x}", True),
        ("\\binom 5 2", "10", True),
        ("\\mathbb{R}", "\\mathbb{R}", True),
        ("\\mathbb{R}", "\\mathbb{Z}", False),
        ("x_{12}", "x_{12}", True),
        ("x_1", "x_2", False),
        ("--3", "3", True),
        ("\\begin{pmatrix} 1 & 2 \\\\ 3 \\end{pmatrix}", "\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}", False),
        ("\\frac{x^2-1}{x-1}", "x+1", True),
        ("\\sqrt{-x^2-1}", "\\sqrt{-x^2-1}", True),
    ],
)
def test_relations_sets_and_functions_by_what_they_say(one: str, two: str, same: bool) -> None:
    assert equal(one, two) is same
    assert equal(two, one) is same


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("2 3", "side by side"),
        ("\\begin{cases} 1 \\\\ 2 \\end{cases}", "environment"),
        ("\\begin{pmatrix} 1 & 2 \\\\ 3 \\end{pmatrix}", "same length"),
        ("\\binom{1}", "a value should"),
        ("\\frac{1}{0}", "divides by zero"),
        ("0^{-1}", "not defined"),
        ("1 + (2, 3)", "inside an expression"),
        ("10^{10^{10}}", "more than 5000 digits"),
    ],
)
def test_what_is_not_read_says_why(answer: str, why: str) -> None:
    found = scored(target="7", output=f"\\boxed{{{answer}}}")
    assert found.value == 0
    assert why in (found.reason or ""), found.reason
