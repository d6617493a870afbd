"""Checks that count: keywords, letters, words, sentences, paragraphs, words in capitals."""

import re

from tasks.score.ifeval.arguments import holds
from tasks.score.ifeval.sentences import capital_words, count_sentences

_WORD = re.compile(r"\w+")
_DIVIDER = re.compile(r"\s?\*\*\*\s?")
_WORD_END = re.compile(r"""[.,?!'"]""")


def keywords_exist(text: str, *, keywords: list[str]) -> bool:
    """Every keyword occurs somewhere, also inside a longer word; case does not count."""
    return all(keyword.casefold() in text.casefold() for keyword in keywords)


def keyword_frequency(text: str, *, keyword: str, frequency: int, relation: str) -> bool:
    """The keyword occurs less than / at least so often, also inside longer words; case does not count."""
    return holds(text.casefold().count(keyword.strip().casefold()), relation=relation, bound=frequency)


def no_forbidden_words(text: str, *, forbidden_words: list[str]) -> bool:
    """None of the words occurs as a word of its own; case does not count."""
    return not any(
        re.search(rf"\b{re.escape(word)}\b", text, flags=re.IGNORECASE) is not None for word in forbidden_words
    )


def letter_frequency(text: str, *, letter: str, let_frequency: int, let_relation: str) -> bool:
    """The letter (or sign) occurs less than / at least so often; case does not count."""
    return holds(text.lower().count(letter.strip().lower()), relation=let_relation, bound=let_frequency)


def number_of_words(text: str, *, num_words: int, relation: str) -> bool:
    """Words are unbroken runs of letters, digits and underscores: `don't` is two."""
    return holds(len(_WORD.findall(text)), relation=relation, bound=num_words)


def number_of_sentences(text: str, *, num_sentences: int, relation: str) -> bool:
    """Sentences as count_sentences has them."""
    return holds(count_sentences(text), relation=relation, bound=num_sentences)


def number_of_paragraphs(text: str, *, num_paragraphs: int) -> bool:
    """Exactly so many paragraphs with `***` between them. A blank one at either end is none; a blank one between two
    dividers fails the instruction."""
    parts = [part.strip() for part in _DIVIDER.split(text)]
    inner = parts[1:-1]
    return all(inner) and sum(bool(part) for part in parts) == num_paragraphs


def nth_paragraph_first_word(text: str, *, num_paragraphs: int, nth_paragraph: int, first_word: str) -> bool:
    """Exactly so many paragraphs, a blank line between two, and the nth of them begins with the word; case and
    punctuation behind it do not count. The nth is counted with blank ones in it, as IFEval's program does."""
    parts = text.split("\n\n")
    filled = sum(bool(part.strip()) for part in parts)
    if filled != num_paragraphs or not 1 <= nth_paragraph <= filled:
        return False
    words = parts[nth_paragraph - 1].split()
    if not words:
        return False
    begins = _WORD_END.split(words[0].lstrip("'").lstrip('"'))[0]
    return begins.lower() == first_word.lower()


def capital_word_frequency(text: str, *, capital_frequency: int, capital_relation: str) -> bool:
    """Words in capitals as capital_words has them."""
    return holds(capital_words(text), relation=capital_relation, bound=capital_frequency)
