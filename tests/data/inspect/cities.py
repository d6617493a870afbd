"""A small task over four questions, asked twice, with every kind of score."""

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageSystem, ChatMessageUser, GenerateConfig
from inspect_ai.scorer import Score, Target, accuracy, choice, includes, match, mean, scorer, stderr
from inspect_ai.solver import Generate, TaskState, multiple_choice, solver

CITIES = [("riga", "Latvia"), ("oslo", "Norway"), ("bern", "Switzerland"), ("lima", "Peru")]


@solver
def sometimes_fails():
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        if state.sample_id == "lima" and state.epoch == 2:
            raise RuntimeError("the tool is down")
        return await generate(state)

    return solve


@scorer(metrics={"chars": [mean()], "polite": [accuracy(), stderr()]})
def style():
    async def score(state: TaskState, target: Target) -> Score:
        text = state.output.completion
        return Score(value={"chars": len(text), "polite": "I" if "?" in text else "C"})

    return score


@scorer(metrics=[mean()])
def unknown_number():
    async def score(state: TaskState, target: Target) -> Score:
        value = float("nan") if state.sample_id == "bern" else 0.5
        return Score(value=value, explanation="half of it")

    return score


@task
def cities() -> Task:
    samples = [
        Sample(id=city, input=f"In which country lies {city.title()}?", target=land, metadata={"city": city})
        for city, land in CITIES
    ]
    samples[2].target = ["Switzerland", "Schweiz"]
    samples[1].input = [
        ChatMessageSystem(content="Answer with one word."),
        ChatMessageUser(content="In which country lies Oslo?"),
    ]
    return Task(
        dataset=MemoryDataset(samples, name="cities"),
        solver=sometimes_fails(),
        scorer=[includes(), match(), style(), unknown_number()],
        config=GenerateConfig(temperature=0.5, max_tokens=64),
    )


@task
def animals() -> Task:
    samples = [
        Sample(input="Which of these barks?", choices=["a cat", "a dog", "a fish"], target="B"),
        Sample(input="Which of these swims?", choices=["a fish", "a dog", "a bird"], target="A"),
    ]
    return Task(dataset=MemoryDataset(samples, name="animals"), solver=multiple_choice(), scorer=choice())
