"""Bringing texts to a common form before they are compared."""

import re
import string

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def squad(text: str) -> str:
    """SQuAD's normalization (Rajpurkar et al. 2016, the dataset's evaluation script): lower case, ASCII punctuation
    deleted, the words a, an and the dropped, runs of white space made one blank.

    Deleting punctuation makes -5 and 5 equal, and 1.5 and 15: compare numbers as numbers.
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def bare_words(text: str) -> str:
    """Lower case, ASCII punctuation deleted, runs of white space made one blank; articles stay."""
    return " ".join(text.lower().translate(_PUNCTUATION).split())


def cut_at(text: str, markers: list[str]) -> str:
    """The text up to the first place where one of the markers begins; all of it where there is none."""
    places = [place for marker in markers if (place := text.find(marker)) >= 0]
    return text[: min(places)] if places else text
