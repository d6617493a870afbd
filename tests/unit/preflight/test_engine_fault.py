"""A backend that the installed vLLM cannot load is refused with the experiment, from what lies on the disk."""

import sys
from pathlib import Path

import pytest

from schemas.engine import Grammar, VllmEngine
from schemas.errors import ConfigError
from tasks.config.guides import engine_fault
from tasks.config.resolve import load_experiment
from tasks.engine.installed import installed_vllm
from tasks.guide.backends import BACKENDS, Backends

EXPERIMENT = """\
name: enforced
model: smollm2-135m-instruct
engine: {extends: vllm, grammar: {backend: lm-format-enforcer}}
datasets: [extract]
arms: [%s]
"""


def test_what_is_read_from_files_is_what_an_import_finds(grammar_backends: Backends) -> None:
    facts = grammar_backends.facts()
    for name in BACKENDS:
        engine = VllmEngine(grammar=Grammar.model_validate({"backend": name}))
        assert (engine_fault(engine) is None) == (facts[name].engine_fault is None), name
    assert "vllm" not in sys.modules, "nothing was imported for it"


def test_versions_are_those_of_the_environment(grammar_backends: Backends) -> None:
    installed = installed_vllm()
    assert installed is not None and installed.version == grammar_backends.vllm
    versions = {name: installed.version_of(known.distribution) for name, known in BACKENDS.items()}
    assert versions == {name: fact.version for name, fact in grammar_backends.facts().items()}
    assert installed.version_of("no-such-distribution") is None


def test_it_is_refused_before_anything_loads_and_only_where_answers_are_guided(tmp_path: Path) -> None:
    file = tmp_path / "enforced.yaml"
    file.write_text(EXPERIMENT % "free, guided")
    with pytest.raises(ConfigError) as refused:
        load_experiment(file)
    (problem,) = refused.value.problems
    assert problem.key == "engine.grammar.backend" and problem.line == 3
    assert "cannot load lm-format-enforcer 0." in problem.message and "`vllm." in problem.message
    assert problem.suggestion == "`engine.grammar.backend: xgrammar`"
    file.write_text(EXPERIMENT % "free")
    assert load_experiment(file).engine.grammar.backend == "lm-format-enforcer"


@pytest.mark.parametrize("written", ["off", "{enabled: false}", "false"])
def test_off_is_written_as_it_reads(tmp_path: Path, written: str) -> None:
    file = tmp_path / "off.yaml"
    file.write_text(EXPERIMENT.replace("backend: lm-format-enforcer", f"preflight: {written}") % "free, guided")
    assert load_experiment(file).engine.grammar.preflight.enabled is False
    by_override = load_experiment("quickstart", overrides=[f"engine.grammar.preflight={written}"])
    assert by_override.engine.grammar.preflight.enabled is False
    lint = load_experiment("quickstart", overrides=["engine.grammar.preflight.lint=false"]).engine.grammar.preflight
    assert lint.enabled is True and lint.lint is False
