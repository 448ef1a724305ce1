"""From a group of rollouts to its ranking: who meets whom, what the judge is told, what the outcome says."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import anyio

from harness.core.rankings import GroupRanking, Ranked
from harness.core.records import Group, Rollout, Usage
from harness.core.verdicts import Judged
from harness.judging import Averaging, Buyer, Jury, Purse
from harness.ranking import (
    NEED_ANCHOR,
    Conclusion,
    Cyclic,
    EarlyStop,
    Rule,
    Topology,
    agreement,
    classes_of,
    conclude,
    make_topology,
    match_margins,
    stack_classes,
)
from harness.tournament.group import Rules, bill, cuts, failed_last, jurors_missing, task_of
from harness.tournament.play import Ask, AtHand, Bench, Outcome, play
from harness.transcripts import transcribe


async def rank_group(group: Group, buyer: Buyer | Jury, rules: Rules, rng: random.Random) -> GroupRanking:
    """Rank a group's rollouts by tournament.

    Where the topology needs an anchor and there is none, the others play a single elimination seeded by `rng`. A
    verdict that cannot be had leaves the group incomplete and its ranks None; so does the topology `none`. `signal`
    is "none" where no two scores of any match differ and no rollout is ranked last for failing: all then share one
    rank and have advantage 0.
    """
    ok = [r for r in group.rollouts if r.status == "ok"]
    texts = {r.index: transcribe(r.trajectory, rules.text_budget) for r in ok}
    task, purse = task_of(group, rules), Purse()
    jury = buyer if isinstance(buyer, Jury) else Jury([buyer])
    classes = _classes(ok, rules)
    fields = [f for f in (_topology(group, members, ok, rules, rng) for members in classes) if f]

    def asking(repeat: int) -> Ask:
        question = replace(task, repeat=repeat)

        async def ask(first: int, second: int) -> Bench:
            return await jury.hear(question, texts[first], texts[second], purse)

        return ask

    def at_hand(first: int, second: int, repeat: int) -> Bench | None:
        return jury.at_hand(replace(task, repeat=repeat), texts[first], texts[second], purse)

    asks = [asking(repeat) for repeat in range(rules.repeats)]
    played = await _play_all(fields, *asks, averaging=jury.averaging, at_hand=at_hand)
    matches, open_keys = tuple(m for own, _, _ in played for m in own), tuple(k for _, keys, _ in played for k in keys)
    absent = tuple(k for *_, keys in played for k in keys)
    last = failed_last(group, rules)
    found = _conclude(fields, played, last, rules)
    later = rules.topology == "none" and (len(classes) == 1 or any(len(c) > 1 for c in classes))
    return GroupRanking(
        query=group.query.id,
        topology=fields[0].name if fields else rules.topology,
        estimator=rules.estimator,
        status="incomplete" if open_keys or later else "complete",
        signal=found.signal,
        matches=matches,
        failed_verdicts=tuple(sorted(open_keys)),
        rollouts=tuple(_with_verified(found.ranked.get(r.index, Ranked(index=r.index)), r) for r in group.rollouts),
        judged=sum(isinstance(v, Judged) for v in purse.bought.values()),
        reused=len(purse.reused),
        judge_usage=sum((v.usage for v in purse.bought.values()), Usage()),
        judge_usd=bill(purse),
        notes=(
            *_notes(group, ok, classes, last, rules),
            *([found.note] if found.note else []),
            *jurors_missing(absent, purse),
            *cuts(texts),
        ),
        absent_verdicts=absent,
        agreement=agreement(match_margins(matches, lambda key: _found(purse, key))),
        reward_from=rules.reward,
        spared=sum(f.spared for f in fields if isinstance(f, EarlyStop)),
        **_noise(found),
    )


def _classes(ok: Sequence[Rollout], rules: Rules) -> list[list[int]]:
    """Return who meets whom: all of those that ended well, or those of equal verifiable reward, best class first."""
    if rules.judge_when == "tied":
        return classes_of({r.index: r.verified for r in ok})
    return [[r.index for r in ok]]


def _topology(
    group: Group, members: Sequence[int], ok: Sequence[Rollout], rules: Rules, rng: random.Random
) -> Topology | None:
    anchor = next((r.index for r in ok if r.role == "anchor"), None)
    if not members or (anchor is None and rules.anchor_failed == "stop" and _has_anchor(group)):
        return None
    made = make_topology(rules.topology, members, anchor if anchor in members else None, rules.order, rng, rules.budget)
    return EarlyStop(made, members, rules.sure) if rules.sure and isinstance(made, Cyclic) else made


def _conclude(
    fields: Sequence[Topology],
    played: Sequence[Outcome],
    last: Sequence[int],
    rules: Rules,
) -> Conclusion:
    if not fields or (rules.topology == "none" and len(fields) == 1):
        return Conclusion(ranked={}, signal="none", fit=None)
    rule, alone = Rule(rules.estimator, rules.reward), len(fields) == 1
    found = [
        conclude(f.standings(), matches, rule=rule, failed_last=last if alone else (), finished=not keys)
        for f, (matches, keys, _) in zip(fields, played, strict=True)
    ]
    return found[0] if alone else stack_classes(found, last)


def _with_verified(ranked: Ranked, rollout: Rollout) -> Ranked:
    return ranked.model_copy(update={"verified": rollout.verified})


def _noise(found: Conclusion) -> dict[str, Any]:
    """Return what the margins tell of the judge; nothing where no call was made."""
    fit = found.fit
    if fit is None or not fit.calls:
        return {}
    return {
        "first_side": round(fit.first_side, 6),
        "first_side_sd": round(fit.first_side_sd, 6),
        "sigma": round(fit.sigma or 0.0, 6),
        "reliability": round(fit.reliability, 6),
    }


def _found(purse: Purse, key: str) -> Judged | None:
    verdict = purse.bought.get(key) or purse.reused.get(key)
    return verdict if isinstance(verdict, Judged) else None


def _notes(
    group: Group, ok: Sequence[Rollout], classes: Sequence[Sequence[int]], last: Sequence[int], rules: Rules
) -> tuple[str, ...]:
    if not ok:
        return ("no rollout ended well: nothing to rank",)
    if len(classes) > 1:
        return (_by_class(classes, rules),)
    if rules.topology == "none":
        return ("not judged, as --topology none asks; `harness rescore --topology arena` judges and ranks",)
    if len(ok) == 1 and not last:
        return ("a single rollout carries no signal: there is nothing to compare it with",)
    return () if any(r.role == "anchor" for r in ok) else (_without_anchor(group, rules),)


def _by_class(classes: Sequence[Sequence[int]], rules: Rules) -> str:
    within = sum(len(c) > 1 for c in classes) if rules.topology != "none" else 0
    judged = f"judged within {within} of them" if within else "nothing was judged"
    return f"ranked by verifiable reward first: {len(classes)} classes; {judged}"


def _has_anchor(group: Group) -> bool:
    return any(r.role == "anchor" for r in group.rollouts)


def _without_anchor(group: Group, rules: Rules) -> str:
    how = "by single elimination with drawn seeds" if rules.topology in NEED_ANCHOR else "without it"
    if not _has_anchor(group):
        return f"there is no anchor: ranked {how}"
    if rules.anchor_failed == "stop":
        return "the anchor failed: left unranked, as --anchor-failed stop asks"
    return f"the anchor failed: the others were ranked {how}"


async def _play_all(fields: Sequence[Topology], *asks: Ask, averaging: Averaging, at_hand: AtHand) -> list[Outcome]:
    """Play tournaments side by side; they share no entrant."""
    found: dict[int, Outcome] = {}

    async def one(at: int) -> None:
        found[at] = await play(fields[at], *asks, averaging=averaging, at_hand=at_hand)

    async with anyio.create_task_group() as tasks:
        for at in range(len(fields)):
            tasks.start_soon(one, at)
    return [found[at] for at in range(len(fields))]
