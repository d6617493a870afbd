"""Which language a text is in, by langdetect's n-gram profiles of 55 languages (Shuyo 2010), which IFEval names too.

Two things are ours. langdetect draws random numbers; here it starts from the same seed for every text, so that a
verdict can be repeated. And a text in capitals is read in small letters, since the profiles hardly know capitals.
"""

from functools import cache
from typing import Any

_SEED = 0
LANGUAGES = {
    "af", "ar", "bg", "bn", "ca", "cs", "cy", "da", "de", "el", "en", "es", "et", "fa", "fi", "fr", "gu",
    "he", "hi", "hr", "hu", "id", "it", "ja", "kn", "ko", "lt", "lv", "mk", "ml", "mr", "ne", "nl", "no",
    "pa", "pl", "pt", "ro", "ru", "sk", "sl", "so", "sq", "sv", "sw", "ta", "te", "th", "tl", "tr", "uk",
    "ur", "vi", "zh", "zh-cn", "zh-tw",
}  # fmt: skip
"""The codes that can be asked for."""
_SAME = {"zh-cn": "zh", "zh-tw": "zh"}


@cache
def _factory() -> Any:
    from langdetect import PROFILES_DIRECTORY, DetectorFactory  # noqa: PLC0415 - reading 55 profiles takes 0.3 s

    factory = DetectorFactory()
    factory.load_profile(PROFILES_DIRECTORY)
    factory.seed = _SEED
    return factory


def language_of(text: str) -> str | None:
    """The ISO 639-1 code of the most likely language (zh-cn, zh-tw for Chinese); None where nothing is a letter."""
    from langdetect import LangDetectException  # noqa: PLC0415 - as above

    detector = _factory().create()
    detector.append(text.lower() if text.isupper() else text)
    try:
        found: str = detector.detect()
    except LangDetectException:
        return None
    return found


def is_in(text: str, *, language: str) -> bool:
    """Whether the text is in that language. A text in which no language can be told is in any, as in IFEval."""
    found = language_of(text)
    return found is None or language in (found, _SAME.get(found))
