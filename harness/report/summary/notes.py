"""What a reader has to know of a group before believing its ranks."""

from collections import Counter
from collections.abc import Iterable
from typing import Literal

from harness.core.rankings import Agreement, GroupRanking
from harness.core.records import Group, Rollout
from harness.core.verdicts import AnyVerdict, Unjudged, Unscored
from harness.core.wording import counted

_Provisional = Literal["places", "probabilities"]
_NOISE: dict[str, str] = {
    "none": "this ranking is noise: no two scores in its matches differ, so all that was judged shares one rank",
    "weak": "this ranking is noise, or close to it: the scores do not tell these rollouts apart (signal weak)",
}
_PROVISIONAL: dict[_Provisional, str] = {
    "places": "provisional: pooled learns the judge from all groups, and these places may change once all are in; "
    "until then the margins of this group alone rank it",
    "probabilities": "provisional: these places count, but pooled learns the judge from all groups, and probabilities "
    "and signal may change once all are in; until then they come from the margins of this group alone",
}


def _part(estimator: str) -> _Provisional:
    return "places" if estimator == "pooled" else "probabilities"


def provisional_words(estimator: str, *, provisional: bool) -> str:
    """Return a clause on what may change of a ranking once all groups are in, after a comma; "" where nothing may."""
    return f", {_part(estimator)} provisional" if provisional else ""


def notes(group: Group, ranking: GroupRanking) -> list[str]:
    """Return what has to be known of a group before its ranks are believed."""
    lines = [_PROVISIONAL[_part(ranking.estimator)]] if ranking.provisional else []
    lines += ranking.notes

    if anchor_is_greedy(group) is False:
        lines.append("the anchor was not greedy: the endpoint, or the agent, did not take temperature 0")
    lines += [
        f"rollout {rollout.index} was captured in part: {'; '.join(rollout.capture_gaps)}"
        for rollout in group.rollouts
        if rollout.capture == "partial"
    ]
    if ranking.matches and ranking.signal in _NOISE and sum(r.rank is not None for r in ranking.rollouts) > 1:
        lines.append(_NOISE[ranking.signal])
    return lines


def own_models(rollout: Rollout) -> list[str]:
    """Return which models of the agent's own a rollout's calls were made on, a line each."""
    calls = Counter((c.own_model, c.model, c.agent) for c in rollout.calls if c.own_model)
    return [
        f"agent {agent or 'unknown'} ran on a model of its own ({own}{f', {model}' if model else ''}) in "
        f"{counted(number, 'call')}"
        for (own, model, agent), number in calls.items()
    ]


def anchor_is_greedy(group: Group) -> bool | None:
    """Tell whether every model call of the anchor really carried temperature 0; None if the anchor made no call."""
    anchor = next((r for r in group.rollouts if r.role == "anchor"), None)
    if anchor is None or not any(c.error is None for c in anchor.calls):
        return None
    return anchor.effective.uniform and anchor.effective.temperature == 0


def jury_lines(ranking: GroupRanking) -> list[str]:
    """Return how far each two jurors agree, a line each."""
    return [agreement_line(pair) for pair in ranking.agreement if pair.items]


def agreement_line(pair: Agreement) -> str:
    """Return how far two jurors agree, in a line."""
    figures = [("kappa", pair.kappa), ("Spearman", pair.spearman)]
    words = ", ".join(f"{name} {'–' if value is None else f'{value:.2f}'}" for name, value in figures)
    return f"jurors {' and '.join(pair.jurors)}: {words} on {counted(pair.items, 'pair')}"


def open_reasons(verdicts: Iterable[AnyVerdict], rankings: Iterable[GroupRanking]) -> Counter[str]:
    """Count why verdicts that rankings still wait for failed."""
    open_keys = {key for ranking in rankings for key in ranking.failed_verdicts}
    newest = {v.key: v for v in verdicts if v.key in open_keys}
    return Counter(v.failure.message for v in newest.values() if isinstance(v, Unjudged | Unscored))
