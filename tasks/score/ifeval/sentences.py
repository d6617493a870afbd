"""Counting sentences and words in capitals by rule, as close as a rule comes to the tokenizers that IFEval names.

IFEval's program counts sentences with the trained Punkt model (Kiss and Strunk 2006) and finds words in capitals with
a Treebank tokenizer. The rules here need no model; where they differ is in docs/metrics-math-ifeval.md.
"""

import re

_ENDING = re.compile(r"""[.?!]+(?=$|[?!)";}\]*:@'({\[”’»])""")
_CLOSERS = "\"')]}”’»"
_OPENERS = "\"'([{<*_“‘«#-–—"
_NUMBER = re.compile(r"[-$€£#]*\d[\d.,:/-]*")
_INITIALS = re.compile(r"(?:[a-z]\.)*[a-z]")
_ALWAYS_INSIDE = {"e.g", "i.e", "cf", "viz"}
_ABBREVIATIONS = {
    "mr", "mrs", "ms", "messrs", "dr", "prof", "st", "jr", "sr", "sen", "rep", "gen", "lt", "col", "maj", "adm", "inc",
    "co", "corp", "ltd", "bros", "vs", "jan", "feb", "aug", "sep", "sept", "oct", "nov", "dec", "tues", "wed", "fri",
    "ave", "ft", "mg", "yr", "ph.d", "m.b.a", "calif", "fla", "mass", "mich", "minn", "wash", "conn", "ill", "ind",
    "tenn", "ariz", "colo", "ga", "va", "etc",
}  # fmt: skip
_PRONOUN = "i"
_STARTERS = {
    "a", "after", "all", "also", "although", "an", "and", "another", "are", "as", "at", "because", "before", "both",
    "but", "by", "can", "despite", "did", "do", "does", "during", "each", "even", "every", "for", "from", "he", "her",
    "here", "his", "how", "however", "i", "if", "in", "indeed", "instead", "is", "it", "its", "last", "many", "may",
    "meanwhile", "more", "moreover", "most", "my", "neither", "no", "nor", "not", "now", "of", "on", "once", "one",
    "only", "or", "other", "others", "our", "over", "perhaps", "she", "since", "so", "some", "such", "than", "that",
    "the", "their", "then", "there", "these", "they", "this", "those", "though", "through", "thus", "to", "today",
    "two", "under", "until", "was", "we", "were", "what", "when", "where", "which", "while", "who", "why", "will",
    "with", "yet", "you", "your",
}  # fmt: skip


def _starts_sentence(word: str) -> bool:
    """Whether a capitalized word is one that begins sentences, not a name."""
    bare = word.strip(_OPENERS + _CLOSERS + ".,;:!?")
    return bare[:1].isupper() and bare.split("'")[0].split("’")[0].lower() in _STARTERS


def _ends(*, before: str, marks: str, following: str) -> bool:
    """Whether the marks behind `before` end a sentence, given the word that follows."""
    if "?" in marks or "!" in marks:
        return True
    core = before.lstrip(_OPENERS).lower()
    if len(marks) > 1:
        return _starts_sentence(following)
    if core in _ALWAYS_INSIDE:
        return False
    if _NUMBER.fullmatch(core):
        return not following.lstrip(_OPENERS)[:1].islower()
    if core != _PRONOUN and (core in _ABBREVIATIONS or _INITIALS.fullmatch(core)):
        return _starts_sentence(following)
    return True


def count_sentences(text: str) -> int:
    """The number of sentences. A sentence ends at `.`, `?` or `!` before white space or a closing mark; not behind an
    abbreviation, an initial or an ellipsis, unless a word that begins sentences follows. A line break ends none. The
    number of a list item (`1. The …`) counts as one, as in IFEval's program. What is left at the end is one too."""
    words = text.split()
    count, begun = 0, False
    for place, word in enumerate(words):
        following = words[place + 1] if place + 1 < len(words) else ""
        start = 0
        for match in _ENDING.finditer(word):
            rest = word[match.end() :].lstrip(_CLOSERS)
            if not (rest or following):
                break
            if _ends(before=word[start : match.start()], marks=match.group(), following=rest or following):
                count, begun, start = count + 1, False, len(word) - len(rest)
        begun = begun or bool(word[start:])
    return count + begun


_BETWEEN_WORDS = re.compile(r"[\s()\[\]{}<>\"“”‘’«»;@#$%&?!]+|--+|\.\.+|[,:](?!\d)|…")
_TRAILING = ".*_'-"
_CONTRACTION = re.compile(r"(?i)(?<=\w)(?:n't|'(?:s|m|d|ll|re|ve))$")
_TWO_IN_ONE = re.compile(r"(?i)cannot|gonna|wanna|gotta|gimme|lemme")


def capital_words(text: str) -> int:
    """The number of words that have a letter and no small one: NASA, I, 3D. A hyphen joins words; `CAN'T`, `IT'S` and
    `CANNOT` are two words each, as in the Treebank convention."""
    count = 0
    for word in _BETWEEN_WORDS.split(text):
        bare = word.rstrip(_TRAILING)
        ending = _CONTRACTION.search(bare)
        stem = bare[: ending.start()] if ending else bare
        count += bool(ending and ending.group().isupper()) + stem.isupper() * (1 + bool(_TWO_IN_ONE.fullmatch(stem)))
    return count
