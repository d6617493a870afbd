"""Which keys of the space tell good settings from bad ones."""

from collections.abc import Sequence

from schemas.tune import Trial
from tasks.tune.space import Space

LEAST = 15
"""Trials below which the shares would be those of chance: the method looks at the best third, and wants five there."""


def importances(trials: Sequence[Trial], *, space: Space, higher: bool) -> tuple[dict[str, float], str]:
    """The share of each key, and what they rest on; no shares, and why, with too few trials or values that are all
    equal.

    Every trial's first samples count, those of pruned ones too: else only good settings would be looked at. PED-ANOVA
    of the best third against all. higher: whether higher values are better."""
    usable = []
    for trial in trials:
        params = space.params_of(trial.settings)
        if (
            trial.reference is None
            and trial.first_value is not None
            and trial.state != "repeated"
            and params is not None
        ):
            usable.append((space.stored(params), space.distributions(params), trial.first_value))
    if len(usable) < LEAST:
        return {}, f"too few trials to say which keys matter: {len(usable)} were measured, of at least {LEAST}"
    if len({value for _, _, value in usable}) == 1:
        return {}, f"no key matters here: all {len(usable)} trials have the same value"
    if len(space.keys) == 1:
        return dict.fromkeys(space.keys, 1.0), "the space has one key"
    import optuna  # noqa: PLC0415 - half a second, and seldom needed

    study = optuna.create_study(direction="maximize" if higher else "minimize")
    for params, distributions, value in usable:
        study.add_trial(optuna.trial.create_trial(params=params, distributions=distributions, value=value))
    evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=1 / 3)
    shares = optuna.importance.get_param_importances(study, evaluator=evaluator)
    note = f"PED-ANOVA over the first samples of {len(usable)} trials, the best third of them against all"
    return {key: float(share) for key, share in shares.items()}, note
