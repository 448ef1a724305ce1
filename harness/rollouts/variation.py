"""What a rollout's recipe (`--vary`) changes of the agent: dealt by the run's seed, applied to one rollout's copy."""

import inspect
import random
from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import Any

from agents import Agent, ModelSettings, RunContextWrapper
from openai.types.shared import Reasoning

from harness.core.errors import option
from harness.core.recipes import BY_TEMPERATURE, Recipe, Vary, parse_vary, varied
from harness.core.records import Role, Sampling
from harness.core.settings import Settings

_parsed = lru_cache(maxsize=8)(parse_vary)
"""A run's text is read once, not once a rollout."""


def vary_in(settings: Settings) -> Vary:
    """Return in what a run's samples differ: in temperature alone where nothing is said."""
    return BY_TEMPERATURE if settings.vary is None else _parsed(settings.vary)


@lru_cache(maxsize=8)
def recipes(vary: Vary) -> tuple[Recipe, ...]:
    """Return all recipes in order, each as often as its weight says."""
    variants = range(1, len(vary.variants) + 1)
    models = [name for name, weight in vary.models for _ in range(weight)]
    each = product(vary.efforts or (None,), variants or (None,), models or (None,))
    return tuple(Recipe(effort=effort, instructions=number, model=model) for effort, number, model in each)


def without_recipes(vary: Vary, names: Collection[str]) -> Vary | None:
    """Return ways that make all recipes but those named; None where no ways make just these."""
    kept = [recipe for recipe in recipes(vary) if recipe.name not in names]
    left = replace(
        vary,
        efforts=tuple(effort for effort in vary.efforts if any(r.effort == effort for r in kept)),
        models=tuple((model, weight) for model, weight in vary.models if any(r.model == model for r in kept)),
        variants=tuple(text for at, text in enumerate(vary.variants, 1) if any(r.instructions == at for r in kept)),
    )
    return left if kept and left.count == len(kept) else None


def dealt(settings: Settings, query: str, index: int) -> Recipe | None:
    """Return the recipe of a rollout, by its query's id and its index; None for the agent as it stands.

    Samples are dealt the recipes in rounds: within a round each has its turn, in an order of chance. So a rollout's
    recipe does not depend on how many there are.
    """
    every = recipes(vary_in(settings))
    if index == 0 or every == (Recipe(),):
        return None
    round_, turn = divmod(index - 1, len(every))
    order = random.Random(f"{settings.seed}/{query}/recipes/{round_}").sample(range(len(every)), len(every))
    return every[order[turn]]


def sampling_for(settings: Settings, role: Role, recipe: Recipe | None, seed: int | None) -> Sampling:
    """Return the settings asked for; top_p means nothing at temperature 0, so an anchor there has none."""
    model = (recipe and recipe.model) or settings.model
    by_temperature = vary_in(settings).temperature
    of_role = settings.anchor_temperature if role == "anchor" else settings.temperature
    top_p = None if role == "anchor" and not of_role else settings.top_p
    return Sampling(temperature=of_role if by_temperature else None, top_p=top_p, seed=seed, model=model)


def refused_words(recipe: Recipe) -> str:
    """Return what is said of a sample whose request the model refused."""
    return f"this sample had {recipe.name}: leave out of {option('vary')} what the model refuses"


def with_variant(agent: Agent[Any], vary: Vary, recipe: Recipe | None) -> None:
    """Give an agent, which is one rollout's own, the instructions of its recipe."""
    if recipe is None or recipe.instructions is None:
        return
    variant, own = vary.variants[recipe.instructions - 1], agent.instructions
    if not callable(own):
        agent.instructions = varied(own or "", variant)
        return

    async def instructions(context: RunContextWrapper[Any], running: Agent[Any]) -> str:
        made: Any = own(context, running)
        return varied((await made if inspect.isawaitable(made) else made) or "", variant)

    agent.instructions = instructions


def with_effort(settings: ModelSettings, effort: str | None) -> ModelSettings:
    """Return a call's settings with a reasoning effort, beside what else the agent asks of reasoning."""
    if effort is None:
        return settings
    reasoning = settings.reasoning or Reasoning()
    return replace(settings, reasoning=reasoning.model_copy(update={"effort": effort}))
