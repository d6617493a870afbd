"""The grammars of python, math and sql: what they let through is taken by the judge of its kind and by both engines,
and real texts are let through."""

import random

import pytest

from tasks.dataset.guide import make_grammar
from tasks.guide.judge import judge
from tasks.guide.kinds import gbnf
from tasks.guide.kinds.math_expression import NotMath, check
from tasks.guide.kinds.network import Network
from tasks.guide.kinds.packaged import KINDS, packaged_grammar
from tasks.guide.validate import validate
from tests.unit.guide.drawing import Llguidance, draw, xgrammar_takes

DRAWS = 100
LONGEST = 700


def drawn(kind: str, n: int = DRAWS) -> list[str]:
    rules = gbnf.parse(packaged_grammar(kind), flavour="gbnf").rules
    rng = random.Random(7)
    found: list[str] = []
    while len(found) < n:
        text = draw(rules, start="root", rng=rng, budget=rng.choice((6, 8, 10, 12)))
        if len(text) <= LONGEST:
            found.append(text)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_all_that_a_grammar_lets_through_is_valid_and_both_engines_write_it(kind: str) -> None:
    text = packaged_grammar(kind)
    grammar = make_grammar(kind=kind, content=text)  # type: ignore[arg-type]
    network = Network(gbnf.parse(text, flavour="xgrammar").rules, start="root")
    engine = Llguidance(text)
    texts = drawn(kind)
    assert len(set(texts)) > DRAWS / 2
    for at, each in enumerate(texts):
        verdict = judge(grammar, each)
        assert verdict.valid, (verdict.violations, each)
        if at % 5 == 0:
            assert network.fault(each) is None, each
            assert xgrammar_takes(text, each), each
            assert engine.takes(each), each


WELL_FORMED = {
    "python": [
        "def add(a, b):\n    return a + b\n",
        'def fib(n: int) -> int:\n    """The n-th."""\n    if n < 2:\n        return n\n    return fib(n - 1)',
        "import math\n\n\nclass A(B):\n    x: int = 3\n\n    def __init__(self, *args):\n        pass",
        'for i, x in enumerate(xs):\n    print(f"{i}: {x:.2f}")  # show\n    total += x * 2',
        "result = [x ** 2 for x in range(10) if x % 2 == 0]",
        "try:\n    x = 1\nexcept ValueError as e:\n    raise\n",
        "x = sorted(a, key=lambda t: t[1])",
    ],
    "math": ["1", "2 * (3 + x)", "-x^2 + sqrt(2)/3", "max(1, 2, pi) ** -2", "1.5e-3*y"],
    "sql": [
        "SELECT * FROM employees WHERE salary > 1000 ORDER BY name DESC LIMIT 5;",
        "select d.name, COUNT(*) AS n FROM departments d LEFT JOIN employees e ON e.dept_id = d.id GROUP BY d.name",
        "SELECT name FROM t WHERE id IN (SELECT id FROM u) AND city LIKE 'B%' OR x IS NOT NULL",
        "SELECT CASE WHEN a > 1 THEN 'big' ELSE 'small' END AS size\nFROM t\nUNION ALL\nSELECT CAST(b AS DATE) FROM u",
    ],
}
BROKEN = {
    "python": {
        "def f(:\n    pass": "no Python: ",
        "x = (1": "no Python: ",
        "if a:\npass": "expected an indented block",
    },
    "math": {
        "2 +": "is missing at column 4, where the text ends",
        "2 3": "an operator is missing at column 3",
        "01": "an operator is missing",
        "foo(1)": "there is no function 'foo', at column 1",
        "sqrt(1, 2)": "`)` is missing",
        "2 & 3": "'&' at column 3 is no part of an expression",
        "": "is missing at column 1",
        "(1": "`)` is missing at column 3, where the text ends",
        "x y": "an operator is missing at column 3",
        "xy": "a variable of one letter or a function",
    },
    "sql": {
        "SELECT FROM WHERE": "syntax error",
        "DROP TABLE t": "a statement of the kind DROP, no SELECT",
        "SELECT 1; SELECT 2": "2 statements",
        "": "no statement",
        "I would write SELECT 1": "syntax error",
    },
}


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in WELL_FORMED.items() for text in texts])
def test_what_people_write_is_let_through(kind: str, text: str) -> None:
    grammar = make_grammar(kind=kind, content=packaged_grammar(kind))  # type: ignore[arg-type]
    assert validate(grammar, text).valid
    assert xgrammar_takes(grammar.content, text)


@pytest.mark.parametrize(
    ("kind", "text", "words"), [(kind, text, words) for kind, texts in BROKEN.items() for text, words in texts.items()]
)
def test_what_is_none_is_told(kind: str, text: str, words: str) -> None:
    grammar = make_grammar(kind=kind, content=packaged_grammar(kind))  # type: ignore[arg-type]
    verdict = validate(grammar, text)
    assert not verdict.valid
    assert words in verdict.violations[0].message
    assert not xgrammar_takes(grammar.content, text)


def test_a_keyword_is_no_name() -> None:
    python, sql = packaged_grammar("python"), packaged_grammar("sql")
    for name in ("iffy", "in_", "lambdas", "Nones", "x"):
        assert xgrammar_takes(python, f"{name} = 1"), name
    for name in ("if", "in", "lambda", "None", "while"):
        assert not xgrammar_takes(python, f"{name} = 1"), name
    for name in ("wheres", "t", "Selected"):
        assert xgrammar_takes(sql, f"SELECT a FROM {name}"), name
    for name in ("where", "Select", "TABLE"):
        assert not xgrammar_takes(sql, f"SELECT a FROM {name}"), name


def test_the_parser_of_expressions_reads_signs_and_powers() -> None:
    for text in ("-2^-2", "--x", "2**3^4", "( 1 )", "min(1)", "(" * 9_000 + "1" + ")" * 9_000):
        check(text)
    for text in ("+1", "1 -", "()", "min()", "1,2"):
        with pytest.raises(NotMath):
            check(text)
