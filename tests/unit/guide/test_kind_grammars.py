"""Grammars that a user writes: the reader of each flavour and the recogniser, against regular expressions, counting,
and the two engines' own matchers."""

import itertools
import re
import time

import pytest

from tasks.guide.kinds import ebnf
from tasks.guide.kinds.nodes import GrammarError
from tests.unit.guide.drawing import Llguidance, xgrammar_takes


def takes(grammar: str, text: str, *, flavour: str = "gbnf") -> bool:
    return ebnf.fault(flavour=flavour, grammar=grammar, text=text) is None


def words(letters: str, longest: int) -> list[str]:
    return ["".join(text) for length in range(longest + 1) for text in itertools.product(letters, repeat=length)]


@pytest.mark.parametrize(
    ("grammar", "pattern"),
    [
        ('root ::= "a"* ("b" | "ab")+ "a"?', "a*(b|ab)+a?"),
        ('root ::= x{1,3} | ""\nx ::= "a" "b"? | "bb"', "((ab?|bb){1,3})?"),
        ('root ::= a root | b\na ::= "a" | ""\nb ::= "b" b | ""', "a*b*"),
        ('root ::= s\ns ::= s s | "a" | ""', "a*"),
        ("root ::= [^a] .{2,}", "[^a].{2,}"),
        ('root ::= x y\nx ::= "a" x | ""\ny ::= x "b" y | "a"', "a*(a*b)*a"),
        ('root ::= "a" root "b" | root "a" | "b"', None),
    ],
)
def test_every_short_text_is_told_as_a_regular_expression_tells_it(grammar: str, pattern: str | None) -> None:
    for text in words("ab", 7):
        # xgrammar knows neither `.`; where there is no pattern, its own matcher is the reference.
        expected = xgrammar_takes(grammar, text) if pattern is None else re.fullmatch(pattern, text) is not None
        assert takes(grammar, text) == expected, text


def test_what_no_regular_expression_tells() -> None:
    def balanced(text: str) -> bool:
        depth = [0, *itertools.accumulate(1 if each == "(" else -1 for each in text)]
        return min(depth) == 0 and depth[-1] == 0

    parentheses = 'root ::= "(" root ")" root | ""'
    assert all(takes(parentheses, text) == balanced(text) for text in words("()", 10))
    palindromes = 'root ::= "a" root "a" | "b" root "b" | "a" | "b" | ""'
    assert all(takes(palindromes, text) == (text == text[::-1]) for text in words("ab", 8))


@pytest.mark.parametrize("grammar", ['root ::= "a" root | "a"', 'root ::= root "a" | "a"', 'root ::= "a"+'])
def test_a_long_text_takes_time_with_its_length(grammar: str) -> None:
    started = time.process_time()
    assert takes(grammar, "a" * 5_000)
    assert not takes(grammar, "a" * 5_000 + "b")
    assert time.process_time() - started < 5


def test_a_fault_says_where_it_is() -> None:
    grammar = 'root ::= line+\nline ::= [a-z]+ "\\n"'
    found = ebnf.fault(flavour="gbnf", grammar=grammar, text="abc\nd4\n")
    assert found is not None
    assert ebnf.words(found, "abc\nd4\n") == "the grammar does not allow '4' at line 2, column 2"
    short = ebnf.fault(flavour="gbnf", grammar=grammar, text="abc")
    assert short is not None
    assert ebnf.words(short, "abc") == "ends before the grammar lets it"


LARK = r"""
// a small calculator
?start: expr
expr: term (("+" | "-") term)*
term: NUMBER
    | "(" expr ")"
    | FN "(" expr ")"   -> call
FN: /sin|cos/i
DAY: "a".."c" | "x"{2,3}
%import common.NUMBER
%ignore /[ \t]+/
"""


def test_a_lark_grammar_and_what_it_ignores() -> None:
    for text in ("1+2", "1 + 2 ", " 1+2", "SIN(3) - (2.5+1e3)"):
        assert takes(LARK, text, flavour="llguidance"), text
    for text in ("s in(3)", "1 2", "2+", "", "(1"):
        assert not takes(LARK, text, flavour="llguidance"), text


@pytest.mark.parametrize(
    ("grammar", "texts"),
    [
        ('start: "a" B\nB: /[0-9]+/', ["a1", "a12", "a", "1", "a1b"]),
        ('start: x{2,3}\nx: "a" | "bc"', ["aa", "abc", "bcbcbc", "a", "aaaa"]),
        ('start: ("a".."c")+ "Z"i ["!"]', ["abz", "aZ!", "z", "abd"]),
        (
            'start: item ("," item)*\nitem: WORD | "[" start "]"\nWORD: /[^\\W\\d]{1,4}/',
            ["ab,[c,d]", "ab,", "[]", "abcde"],
        ),
        (r"start: S" + "\n" + r'S: /"(\\.|[^"\\])*"/', ['"a"', '"a\\"b"', '"a', 'a"']),
    ],
)
def test_llguidance_itself_says_the_same(grammar: str, texts: list[str]) -> None:
    engine = Llguidance(grammar)
    for text in texts:
        assert takes(grammar, text, flavour="llguidance") == engine.takes(text), text


@pytest.mark.parametrize(
    ("grammar", "texts"),
    [
        ('root ::= item ("," item)*\nitem ::= [a-z0-9]{1,3} | "x\\n"', ["a", "a,b1", "x\n,z", ",", "abcd", ""]),
        ('root ::= my-item\nmy-item ::= [^"\\\\\\x00-\\x1F]+', ["é ok", 'a"', "a\\", "\n"]),
        ('root ::= ("a" |\n  "b"\n) "c"{2}', ["acc", "bcc", "ac", "accc"]),
        ('root ::= root "a" | "b"', ["b", "baa", "a", "ab"]),
    ],
)
def test_both_engines_say_the_same_of_gbnf(grammar: str, texts: list[str]) -> None:
    engine = Llguidance(grammar)
    for text in texts:
        assert takes(grammar, text) == xgrammar_takes(grammar, text) == engine.takes(text), text


@pytest.mark.parametrize(
    ("grammar", "texts"),
    [
        ('root ::= "a"\n  | "b"\n  | rest\nrest ::= [\\]\\-a^]+ "\\U0001F600"', ["a", "b", "]-^\U0001f600", "c"]),
        ('root ::= "a"\n  "b" # more\nx_1.y ::= "z"', ["ab", "a", "abz"]),
    ],
)
def test_xgrammar_itself_says_the_same_of_its_own_flavour(grammar: str, texts: list[str]) -> None:
    for text in texts:
        assert takes(grammar, text, flavour="xgrammar") == xgrammar_takes(grammar, text), text


@pytest.mark.parametrize(
    ("flavour", "grammar", "words"),
    [
        ("gbnf", 'root ::= "a"\n  | "b"', "line 2: a rule begins with its name, not with '|'"),
        ("gbnf", "root ::= [\\d]+", "line 1: there is no escape `\\d`; a class such as `[0-9]` says what `\\d` says"),
        ("gbnf", 'start: "a"', "`rule: …` is Lark, which is the flavour llguidance"),
        ("gbnf", 'root ::= "a" foo', "the rule `root` calls `foo`, which is not there"),
        ("gbnf", 'root ::= "a" root', "no text can ever obey it"),
        ("gbnf", 'root ::= "a"\nroot ::= "b"', "line 2: the rule `root` stands twice"),
        ("gbnf", 'root ::= "a"{3,2}', "at least 3 and at most 2 times is never"),
        ("gbnf", "root ::= " + "(" * 300 + '"a"' + ")" * 300, "nested too deeply"),
        ("xgrammar", "root ::= .", "line 1: xgrammar has no `.`"),
        ("xgrammar", 'root ::= "a" ( | "b")', 'an alternative cannot be empty: write `""`'),
        ("xgrammar", 'root ::= TagDispatch(("<a>", r))', "cannot be judged"),
        ("xgrammar", 'root ::= <[1]> "a"', "token literal"),
        ("llguidance", 'root: "a"', "there is no rule `start`"),
        ("llguidance", "start: %json {}", "`kind: json_schema` is a guide of its own"),
        ("llguidance", "start: x~2..3\nx: /a/", "a number of times is `{2,3}`"),
        ("llguidance", 'start: A\nA[stop="x"]: /a/', "line 2: the attribute `stop`"),
        ("llguidance", "start: /(?=a)b/", "line 1: a terminal's pattern cannot have assert in it"),
        ("llguidance", 'start: "::=" A\nA: /x/', "line 1: `::=` in a grammar of the flavour llguidance"),
        ("llguidance", "start: A\nA: b\nb: /x/", "line 2: the terminal `A` calls `b`, which is a rule"),
        ("llguidance", "%import common.FOO\nstart: FOO", "`%import common.FOO` is not known"),
    ],
)
def test_what_is_no_grammar_is_refused_with_its_line(flavour: str, grammar: str, words: str) -> None:
    with pytest.raises(GrammarError) as caught:
        ebnf.check(flavour=flavour, grammar=grammar)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("flavour", "backend", "grammar", "words"),
    [
        ("gbnf", "xgrammar", 'root ::= "a"', None),
        ("gbnf", "guidance", 'root ::= "a"', None),
        ("llguidance", "guidance", 'start: "a"', None),
        ("llguidance", "xgrammar", 'start: "a"', "takes `xgrammar` and `gbnf`; `llguidance` is taken by guidance"),
        ("xgrammar", "guidance", 'root ::= "a"', "takes `llguidance` and `gbnf`; `xgrammar` is taken by xgrammar"),
        ("gbnf", "outlines", 'root ::= "a"', "takes no grammars"),
        ("gbnf", "xgrammar", 'root ::= "a"\nx ::= .', "line 2: xgrammar has no `.`"),
        ("gbnf", "guidance", "root ::= .", "llguidance's `.` is no line break"),
        ("gbnf", "guidance", 'root ::= "\\u0041"', "llguidance misreads"),
        ("gbnf", "guidance", 'root ::= "\\x41"', "llguidance misreads"),
    ],
)
def test_the_backend_that_does_not_take_a_flavour_is_told(
    flavour: str, backend: str, grammar: str, words: str | None
) -> None:
    said = ebnf.backend_fault(flavour=flavour, grammar=grammar, backend=backend)
    assert said is None if words is None else words in str(said)


@pytest.mark.parametrize("grammar", ['root ::= "\\u0041"', 'root ::= "\\x41"'])
def test_llguidance_does_misread_what_is_refused_for_it(grammar: str) -> None:
    assert takes(grammar, "A")
    with pytest.raises(ValueError, match="lexer error"):
        Llguidance(grammar)


def test_llguidance_takes_a_dot_for_no_line_break() -> None:
    assert takes("root ::= .", "\n")
    assert not Llguidance("root ::= .").takes("\n")
