"""The targets of a sample as texts: one, or the list of which the best counts."""

from schemas.sample import Sample


def text_targets(sample: Sample) -> tuple[list[str], str | None]:
    """The target as a list of texts, or an empty list and the reason why there is none.

    Numbers and booleans become their text, as in exact_match; an object is no text.
    """
    targets = sample.target if isinstance(sample.target, list) else [sample.target]
    if not targets:
        return [], "the sample's list of targets is empty"
    for target in targets:
        if target is None or isinstance(target, dict | list):
            return [], f"the target {target!r} is no text"
    return [str(target) for target in targets], None
