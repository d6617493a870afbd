"""Bringing texts to a common form before they are compared."""

import re
import string

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_ARTICLE_WORDS = frozenset({"a", "an", "the"})
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def squad(text: str) -> str:
    """SQuAD's normalization (Rajpurkar et al. 2016, the dataset's evaluation script): lower case, ASCII punctuation
    deleted, the words a, an and the dropped, runs of white space made one blank.

    Deleting punctuation makes -5 and 5 equal, and 1.5 and 15: compare numbers as numbers.
    """
    return " ".join(squad_words(text))


def squad_words(text: str) -> list[str]:
    """The words of `squad`."""
    bare = text.lower().translate(_PUNCTUATION)
    words = bare.split()
    # where letters, digits and blanks of ASCII are left, only blanks part words: no other article is to be found
    if bare.isascii() and "".join(words).isalnum():
        return [word for word in words if word not in _ARTICLE_WORDS]
    return _ARTICLES.sub(" ", bare).split()


def bare_words(text: str) -> str:
    """Lower case, ASCII punctuation deleted, runs of white space made one blank; articles stay."""
    return " ".join(text.lower().translate(_PUNCTUATION).split())


def cut_at(text: str, markers: list[str]) -> str:
    """The text up to the first place where one of the markers begins; all of it where there is none."""
    places = [place for marker in markers if (place := text.find(marker)) >= 0]
    return text[: min(places)] if places else text
