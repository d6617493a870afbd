"""Writes python.gbnf, math.gbnf and sql.gbnf. What stands for itself is written once here, and what repeats (levels of
indentation, names that are no keywords) is written out by a loop.

    python -m configs.grammars.make

Two rules hold for every line: xgrammar and llguidance both read it (no `.`, no `\\x` within a text), and whatever it
lets through is taken by the validator of its kind: Python by `ast.parse`, SQL by DuckDB's parser. A test draws texts
from the grammars and holds both.
"""
# ruff: noqa: E501 - a rule of a grammar is one line

import keyword
import re
from collections.abc import Iterable
from pathlib import Path

DEPTH = 4
"""Levels of blocks within one another."""
HERE = Path(__file__).parent
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
_SPELLED = {letter: f"x{letter.lower()}" for letter in "FNT"} | {"_": "xu"}

_EXPRESSIONS = r"""
# Expressions, the loosest first. Blanks stand one at a time, and keywords have one on each side.
exprs ::= expr (", " expr){0,8}
expr ::= disj (" if " disj " else " disj)? | "lambda" (" " name (", " name){0,4})? ": " disj
disj ::= conj (" or " conj)*
conj ::= inv (" and " inv)*
inv ::= "not " inv | comp
comp ::= sum (sp compare sp sum | among sum)*
compare ::= "==" | "!=" | "<=" | ">=" | "<" | ">"
among ::= " in " | " not in " | " is " | " is not "
sum ::= term (sp ("+" | "-" | "|" | "^" | "&" | "<<" | ">>") sp term)*
term ::= factor (sp ("*" | "//" | "/" | "%" | "@") sp factor)*
factor ::= [-+~] factor | power
power ::= primary (sp "**" sp factor)?
primary ::= number | (name | text | constant | list | braces | parens) trailer*
trailer ::= "." name | "(" args? ")" | "[" index "]"
index ::= expr (", " expr){0,4} | disj? ":" disj? (":" disj?)?
args ::= bases | disj comp-for
bases ::= exprs (", " keyword)* | keyword (", " keyword)*
keyword ::= name "=" expr
constant ::= "None" | "True" | "False"
list ::= "[" (exprs | disj comp-for)? "]"
braces ::= "{" (pair (", " pair)* | exprs | disj comp-for | disj ": " disj comp-for)? "}"
pair ::= disj ": " expr
parens ::= "(" (expr | expr ", " exprs? | disj comp-for)? ")"
comp-for ::= " for " names " in " disj (" if " disj){0,2}
names ::= name (", " name){0,4}

# What stands for itself. No leading zeros; strings of one line, or in three quotes; f-strings with names in braces.
number ::= int ("." [0-9]{1,17})? ("e" [-+]? [1-9] [0-9]{0,2})?
int ::= "0" | [1-9] [0-9]{0,17}
text ::= "f"? quoted-double-f | quoted-double | quoted-single
quoted-double ::= "\"" ([^"\\\x00-\x1F\x7F] | escape)* "\""
quoted-single ::= "'" ([^'\\\x00-\x1F\x7F] | escape)* "'"
quoted-double-f ::= "\"" ([^"\\{}\x00-\x1F\x7F] | escape | "{" name ("." name)* (":" [0-9.,<>+a-z]{1,6})? "}")* "\""
escape ::= "\\" ["'\\nrt]
sp ::= " "?
"""

_STATEMENTS = r"""
# Statements of one line.
simple ::= assign | target sp augment sp exprs | "return" (" " exprs)? | "pass" | "break" | "continue" | "raise" (" " expr)? | "assert " expr (", " expr)? | "del " target | "yield" (" " exprs)? | docstring | exprs
assign ::= target (", " target){0,4} sp "=" sp (target sp "=" sp)? exprs | name ": " disj (sp "=" sp exprs)?
target ::= name | name reach* ("." name | "[" index "]")
reach ::= "." name | "[" index "]" | "(" args? ")"
augment ::= "+=" | "-=" | "*=" | "/=" | "//=" | "%=" | "**=" | "|=" | "&=" | "^="
import ::= "import " dotted (" as " name)? | "from " dotted " import " (names | name " as " name)
dotted ::= name ("." name)*
docstring ::= "\"\"\"" [^"\\\x00-\x08\x0B-\x1F\x7F]* "\"\"\""
comment ::= "#" [^\x00-\x1F\x7F]*
params ::= stars | (param (", " param)* (", " default)* | default (", " default)*) (", " stars)?
stars ::= "*" name (", **" name)? | "**" name
param ::= name (": " disj)?
default ::= name (": " disj sp "=" sp | "=") expr
nl ::= "\n" | "\n\n" | "\n\n\n"
remark ::= " #" [^\x00-\x1F\x7F]*
line ::= simple (" " remark)? | import
"""


def names_without(keywords: Iterable[str], *, any_case: bool = False) -> list[str]:
    """Rules for ASCII names that are no keyword: after each beginning of one, what does not complete it.

    any_case: keywords count in upper and lower case alike; they are given in lower case then."""
    known = set(keywords)
    beginnings = sorted({word[:end] for word in known for end in range(len(word) + 1)})
    rules = ["name-rest ::= [A-Za-z0-9_]{0,40}"]
    for begin in beginnings:
        letters = sorted({word[len(begin)] for word in known if word.startswith(begin) and len(word) > len(begin)})
        ways = [f"{_letter(each, any_case=any_case)} {_rule_of(begin + each)}" for each in letters]
        taken = {each for letter in letters for each in ((letter.lower(), letter.upper()) if any_case else (letter,))}
        every = _LETTERS + ("0123456789" if begin else "")
        ways.append(f"[{''.join(each for each in every if each not in taken)}] name-rest")
        if begin and begin not in known:
            ways.append('""')
        rules.append(f"{_rule_of(begin)} ::= {' | '.join(ways)}")
    return rules


def _letter(letter: str, *, any_case: bool) -> str:
    return f"[{letter.upper()}{letter}]" if any_case and letter != "_" else f'"{letter}"'


def _rule_of(begin: str) -> str:
    # Upper and lower case are one to llguidance's reader of GBNF, and GBNF's names have no underscore.
    return "name" if not begin else "name-" + "".join(_SPELLED.get(letter, letter) for letter in begin)


def blocks(depth: int) -> list[str]:
    """The statements of one level of indentation, and the block below them."""
    own, inner = "    " * depth, "    " * (depth + 1)
    if depth == DEPTH:
        return [f'lines-{depth} ::= (comment nl "{own}")* line (nl "{own}" (comment nl "{own}")* line)*']
    start = f'nl "{own}"' if own else "nl"
    return [
        f"lines-{depth} ::= stmt-{depth} ({start} stmt-{depth})*",
        f"stmt-{depth} ::= (comment {start})* (line | compound-{depth})",
        f'body-{depth} ::= ":" (" " (simple | import) | (" " remark)? "\\n{inner}" lines-{depth + 1})',
        f"compound-{depth} ::= if-{depth} | for-{depth} | while-{depth} | try-{depth} | with-{depth} | def-{depth} | "
        f"class-{depth}",
        f'if-{depth} ::= "if " expr body-{depth} ({start} "elif " expr body-{depth})* ({start} "else" body-{depth})?',
        f'for-{depth} ::= "for " names " in " exprs body-{depth}',
        f'while-{depth} ::= "while " expr body-{depth}',
        f'try-{depth} ::= "try" body-{depth} ({start} "except" (" " expr (" as " name)?) body-{depth})+ '
        f'({start} "finally" body-{depth})?',
        f'with-{depth} ::= "with " disj (" as " name)? body-{depth}',
        f'def-{depth} ::= (decorator {start})? "def " name "(" params? ")" (" -> " disj)? body-{depth}',
        f'class-{depth} ::= (decorator {start})? "class " name ("(" bases? ")")? body-{depth}',
    ]


def python() -> str:
    """The whole grammar."""
    head = [
        "# A subset of Python: functions, classes, loops, conditions, comprehensions, f-strings with names, annotations,",
        f"# lambdas. Blocks are indented by four blanks and nest {DEPTH} levels deep. Written by make.py.",
        'root ::= lines-0 "\\n"?',
    ]
    tail = ['decorator ::= "@" dotted ("(" args? ")")?']
    levels = [rule for depth in range(DEPTH + 1) for rule in blocks(depth)]
    names = ["# A name, which is no keyword.", *names_without(keyword.kwlist)]
    return "\n".join([*head, *levels, *tail, _STATEMENTS.strip(), "", _EXPRESSIONS.strip(), "", *names, ""])


_MATH = r"""# An arithmetic expression: numbers, one-letter variables, pi, + - * / ^ **, functions, parentheses. Written by make.py.
root ::= sum
sum ::= term (sp [-+] sp term)*
term ::= signed (sp [*/] sp signed)*
signed ::= "-" signed | power
power ::= atom (sp ("^" | "**") sp signed)?
atom ::= number | variable | one "(" sum ")" | several "(" sum ("," sp sum){0,9} ")" | "(" sum ")"
one ::= "sqrt" | "sin" | "cos" | "tan" | "asin" | "acos" | "atan" | "exp" | "log" | "ln" | "abs" | "floor" | "ceil"
several ::= "min" | "max"
variable ::= [a-z] | "pi"
number ::= ("0" | [1-9] [0-9]{0,30}) ("." [0-9]{1,30})? ("e" [-+]? [0-9]{1,3})?
sp ::= " "?
"""

_SQL = r"""# One SELECT: joins, subqueries, set operations, CASE, CAST, aggregates. Written by make.py.
root ::= query ";"?
query ::= select (ws (k-union (ws k-all)? | k-except | k-intersect) ws select){0,4} (ws order)? (ws limit)?
select ::= k-select ws (k-distinct ws)? items (ws k-from ws source)? (ws k-where ws expr)? (ws group)?
items ::= item ("," ws item){0,30}
item ::= "*" | every | expr (ws k-as ws name)?
every ::= name ".*"
source ::= table (ws join){0,8} | table ("," ws table){1,8}
table ::= (name ("." name)? | "(" query ")") (ws (k-as ws name | short))?
short ::= [a-z] [0-9]?
join ::= (k-inner ws | (k-left | k-right | k-full) ws (k-outer ws)?)? k-join ws table ws k-on ws expr | k-cross ws k-join ws table
group ::= k-group ws k-by ws exprs (ws k-having ws expr)?
order ::= k-order ws k-by ws sorted ("," ws sorted){0,8}
sorted ::= expr (ws (k-asc | k-desc))?
limit ::= k-limit ws int (ws k-offset ws int)?
exprs ::= expr ("," ws expr){0,30}
expr ::= conj (ws k-or ws conj)*
conj ::= inv (ws k-and ws inv)*
inv ::= k-not ws inv | comp
comp ::= sum (sp compare sp sum | ws k-is ws (k-not ws)? k-null | ws (k-not ws)? (k-in ws among | k-like ws text | k-between ws sum ws k-and ws sum))?
compare ::= "=" | "<>" | "!=" | "<=" | ">=" | "<" | ">"
among ::= "(" (query | exprs) ")"
sum ::= term (ws ("+" | "-" | "||") ws term)*
term ::= signed (ws ("*" | "/" | "%") ws signed)*
signed ::= "-" atom | atom
atom ::= number | text | k-null | k-true | k-false | column | call | case | cast | k-exists ws "(" query ")" | "(" (query | expr) ")"
column ::= name ("." name)?
call ::= function "(" (k-distinct ws)? exprs ")" | k-count "(" ("*" | (k-distinct ws)? expr) ")"
function ::= k-sum | k-avg | k-min | k-max | k-lower | k-upper | k-length | k-round | k-abs | k-coalesce | k-substring | k-concat
case ::= k-case (ws k-when ws expr ws k-then ws expr){1,8} (ws k-else ws expr)? ws k-end
cast ::= k-cast "(" expr ws k-as ws (k-integer | k-double | k-varchar | k-date) ")"
text ::= "'" ([^'\x00-\x1F\x7F] | "''")* "'"
number ::= int ("." [0-9]{1,18})?
int ::= [0-9]{1,18}
sp ::= " "?
ws ::= " " | "\n"
"""


def sql() -> str:
    """The grammar with DuckDB's own keywords taken out of what a name may be."""
    import duckdb  # noqa: PLC0415 - only who writes the file needs it

    rows = duckdb.sql("SELECT keyword_name, keyword_category FROM duckdb_keywords()").fetchall()
    own = sorted(set(re.findall(r"k-([a-z]+)", _SQL)))
    keywords = {name.lower() for name, category in rows if category != "unreserved"} | set(own)
    spelled = [f'k-{each} ::= "{each.upper()}" | "{each}"' for each in own]
    names = ["# A name, which is no keyword, in whatever case.", *names_without(keywords, any_case=True)]
    return "\n".join([_SQL.strip(), "", "# Keywords, in upper or in lower case.", *spelled, "", *names, ""])


if __name__ == "__main__":
    for name, text in (("python", python()), ("math", _MATH), ("sql", sql())):
        (HERE / f"{name}.gbnf").write_text(text, encoding="utf-8")
