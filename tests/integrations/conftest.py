"""A judge by the last word of an answer, and a stand-in for TRL's trainer."""

from collections import defaultdict
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fake_endpoint import FakeEndpoint, Reaction, Say, Seen, fair_judge

MARKS = {"good": 9, "fair": 5, "bad": 1}


def by_words(seen: Seen) -> Reaction:
    """Mark answers by a word that they hold; to what is asked of grass no verdict is given."""
    if "grass" in seen.user:
        return Say("The second one, I should think.")
    return fair_judge(lambda text: next((mark for word, mark in MARKS.items() if word in text), 3))(seen)


@pytest.fixture
def judge(endpoint: FakeEndpoint) -> FakeEndpoint:
    endpoint.judge = by_words
    return endpoint


@dataclass
class TrlTrainer:
    """What TRL's GRPOTrainer shows a reward function: the functions that log are methods of its own."""

    num_generations: int = 3
    num_generations_eval: int = 2
    reward_funcs: tuple[str, ...] = ("tournament",)
    model: Any = field(default_factory=lambda: SimpleNamespace(training=True))
    metrics: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    extra: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))

    def log_metric(self, name: str, value: float) -> None:
        self.metrics[name].append(value)

    def log_extra(self, column: str, values: list[Any]) -> None:
        self.extra[column].extend(values)

    async def rewards(self, function: Any, groups: dict[str, list[str]], *, as_text: bool = False) -> list[Any]:
        """Call a reward function as TRL does: with a row a completion, prompts repeated."""
        rows = [(prompt, completion) for prompt, completions in groups.items() for completion in completions]
        return await function(
            prompts=[prompt if as_text else [{"role": "user", "content": prompt}] for prompt, _ in rows],
            completions=[text if as_text else [{"role": "assistant", "content": text}] for _, text in rows],
            completion_ids=[[1]] * len(rows),
            trainer_state=object(),
            log_extra=self.log_extra,
            log_metric=self.log_metric,
        )
