"""The 25 instructions by name: what each needs to be told, and its check."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tasks.score.ifeval import counts, form
from tasks.score.ifeval.arguments import BadInstruction, Kind, read_arguments


@dataclass(frozen=True, slots=True)
class Instruction:
    """check(text, **arguments) -> whether a text that is not blank follows it; needs: its arguments and their kinds."""

    check: Callable[..., bool]
    needs: Mapping[str, Kind] = field(default_factory=dict)


INSTRUCTIONS: dict[str, Instruction] = {
    "keywords:existence": Instruction(counts.keywords_exist, {"keywords": "texts"}),
    "keywords:frequency": Instruction(
        counts.keyword_frequency, {"keyword": "text", "frequency": "count", "relation": "relation"}
    ),
    "keywords:forbidden_words": Instruction(counts.no_forbidden_words, {"forbidden_words": "texts"}),
    "keywords:letter_frequency": Instruction(
        counts.letter_frequency, {"letter": "text", "let_frequency": "count", "let_relation": "relation"}
    ),
    "language:response_language": Instruction(form.response_language, {"language": "language"}),
    "length_constraints:number_sentences": Instruction(
        counts.number_of_sentences, {"num_sentences": "count", "relation": "relation"}
    ),
    "length_constraints:number_paragraphs": Instruction(counts.number_of_paragraphs, {"num_paragraphs": "count"}),
    "length_constraints:number_words": Instruction(
        counts.number_of_words, {"num_words": "count", "relation": "relation"}
    ),
    "length_constraints:nth_paragraph_first_word": Instruction(
        counts.nth_paragraph_first_word, {"num_paragraphs": "count", "nth_paragraph": "count", "first_word": "text"}
    ),
    "detectable_content:number_placeholders": Instruction(form.placeholders, {"num_placeholders": "count"}),
    "detectable_content:postscript": Instruction(form.postscript, {"postscript_marker": "text"}),
    "detectable_format:number_bullet_lists": Instruction(form.bullets, {"num_bullets": "count"}),
    "detectable_format:constrained_response": Instruction(form.constrained_response),
    "detectable_format:number_highlighted_sections": Instruction(form.highlights, {"num_highlights": "count"}),
    "detectable_format:multiple_sections": Instruction(
        form.sections, {"section_spliter": "text", "num_sections": "count"}
    ),
    "detectable_format:json_format": Instruction(form.json_format),
    "detectable_format:title": Instruction(form.title),
    "combination:two_responses": Instruction(form.two_responses),
    "combination:repeat_prompt": Instruction(form.repeats_prompt, {"prompt_to_repeat": "text"}),
    "startend:end_checker": Instruction(form.ends_with, {"end_phrase": "text"}),
    "startend:quotation": Instruction(form.quoted),
    "change_case:capital_word_frequency": Instruction(
        counts.capital_word_frequency, {"capital_frequency": "count", "capital_relation": "relation"}
    ),
    "change_case:english_capital": Instruction(form.all_capitals),
    "change_case:english_lowercase": Instruction(form.all_lowercase),
    "punctuation:no_comma": Instruction(form.no_comma),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One instruction of a sample, with its arguments checked."""

    name: str
    arguments: Mapping[str, Any]

    def followed(self, text: str) -> bool:
        """Whether this very text follows it; a blank text follows none."""
        return bool(text.strip()) and INSTRUCTIONS[self.name].check(text, **self.arguments)

    def followed_loosely(self, text: str) -> bool:
        """Whether one of the text's variants follows it."""
        return any(self.followed(variant) for variant in variants(text))


def read_instructions(*, names: Sequence[Any], arguments: Sequence[Any]) -> list[Asked]:
    """A sample's instructions. Raises BadInstruction where one is unknown or lacks what it needs."""
    if len(names) != len(arguments):
        raise BadInstruction(f"{len(names)} instructions have {len(arguments)} kwargs")
    asked = []
    for name, given in zip(names, arguments, strict=True):
        if name not in INSTRUCTIONS:
            raise BadInstruction(f"there is no instruction {name!r}")
        if given is not None and not isinstance(given, Mapping):
            raise BadInstruction(f"the kwargs of {name} are no mapping")
        checked = read_arguments(name=name, needs=INSTRUCTIONS[name].needs, given=given or {})
        asked.append(Asked(name=name, arguments=checked))
    return asked


def variants(text: str) -> list[str]:
    """The 8 readings of the loose mode: as it is, without its first line, without its last, without both; and each of
    these without any `*`. Where lines go, white space at the ends goes too."""
    lines = text.split("\n")
    shorter = ["\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1])]
    readings = [text, *shorter]
    return readings + [reading.replace("*", "") for reading in readings]
