"""Where the engine gets the weights from."""

from schemas.plan import ModelFacts, PlannedOption


def plan_load_format(model: ModelFacts) -> tuple[PlannedOption, list[str]]:
    """The option load_format: `safetensors`, or `dummy` for a model without weights, with a warning."""
    option = PlannedOption(
        option="load_format",
        value="dummy" if model.dummy else "safetensors",
        default_value="auto",
        reason="The model has no weights: the engine makes some up, the same ones each time."
        if model.dummy
        else "Only safetensors are loaded: no other format is safe from running code.",
        evidence=f"{model.weights_bytes:,} bytes of weights",
        source="plan",
        would_change="a model whose source is of another kind (`dummy` has no weights)",
    )
    warning = "The model has made-up weights: its speed and memory are real, its answers and scores mean nothing."
    return option, [warning] if model.dummy else []
