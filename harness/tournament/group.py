"""What both ways of ranking a group share: the rules, what the judge is told, failed rollouts, the bill, notes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.core.records import AGENT_FAILURES, Group
from harness.core.sums import sum_if_known
from harness.judging import Purse, Task
from harness.ranking import Estimator, OrderPolicy, RewardFrom, TopologyName
from harness.transcripts import TokenBudget, Transcript


@dataclass(frozen=True)
class Rules:
    """How a group is ranked: the judging orders, what becomes of failed rollouts, what the judge is told."""

    topology: TopologyName = "arena"
    budget: int | None = None
    order: OrderPolicy | None = None
    estimator: Estimator = "tiers"
    reward: RewardFrom = "rank"
    failed: Literal["by-cause", "exclude", "last"] = "by-cause"
    anchor_failed: Literal["rank", "stop"] = "rank"
    show_instructions: bool = True
    judge_when: Literal["always", "tied"] = "always"
    sure: float | None = None
    """Stop `cyclic` once its leader is the winner for certain (1), or with this probability."""
    text_budget: TokenBudget | None = None
    """What each transcript may take; None for no limit."""
    repeats: int = 1
    """Verdicts a pair and order, of which the mean counts."""


def task_of(group: Group, rules: Rules) -> Task:
    """Return what the judge is told of the task: the brief is the agent's instructions and its tools' names."""
    briefed = next((r for r in group.rollouts if r.instructions or r.tool_names), None)
    brief = None
    if rules.show_instructions and briefed:
        tools = f"Tools: {', '.join(briefed.tool_names) or 'none'}"
        brief = "\n\n".join(filter(None, [(briefed.instructions or "").strip(), tools]))
    return Task(group.query.id, group.query.text, brief, group.query.reference)


def failed_last(group: Group, rules: Rules) -> list[int]:
    """Return the failed rollouts that rank below all others."""
    failed = [r for r in group.rollouts if r.failure]
    if rules.failed == "by-cause":
        failed = [r for r in failed if r.failure and r.failure.kind in AGENT_FAILURES]
    return [] if rules.failed == "exclude" else [r.index for r in failed]


def bill(purse: Purse) -> float | None:
    """Return the price of what was bought, None where a part of it is unknown."""
    return sum_if_known(v.price_usd for v in purse.bought.values() if v.usage.requests)


def jurors_missing(absent: Sequence[str], purse: Purse) -> tuple[str, ...]:
    """Return a note for each juror some of whose verdicts failed, where the others' stand; and on those not bought."""
    counted = Counter(purse.bought[key].judge for key in absent if key in purse.bought)
    told = [f"{_verdicts(n)} of juror {judge} failed: the other jurors' stand" for judge, n in sorted(counted.items())]
    if unbought := len(absent) - counted.total():
        told.append(f"{_verdicts(unbought)} of jurors not bought: the other jurors' stand")
    return tuple(told)


def _verdicts(number: int) -> str:
    return f"{number} {'verdict' if number == 1 else 'verdicts'}"


def cuts(texts: Mapping[int, Transcript]) -> tuple[str, ...]:
    """Return a note on the answers that were cut to fit, if any."""
    cut = ", ".join(str(i) for i, text in texts.items() if text.answer_cut)
    return (
        (f"longer than --judge-budget allows, so the judge saw these answers without their middle: {cut}",)
        if cut
        else ()
    )
