"""From a group of rollouts to its ranking by a listwise judge: rank_list(group, jury), no tournament.

Groups that do not fit into one call are judged in lists that share one trajectory, the anchor's. With c lists and
the shared one's score a_k in list k, a score s of list k becomes s + (mean(a_1..a_c) - a_k): every list is shifted so
that all agree on what they share. Ranks are taken from these sums; what is shown is clipped to 0..1.
"""

import random
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import anyio

from harness.core.rankings import Agreement, GroupRanking, Ranked, Signal
from harness.core.records import Group, Rollout, Usage
from harness.core.verdicts import Scored, Unscored
from harness.judging import ListBuyer, ListJury, ListTask, Purse, Task, average
from harness.ranking import agreement, exact, place
from harness.tournament.group import Rules, bill, cuts, failed_last, jurors_missing, task_of
from harness.transcripts import Transcript, transcribe

TOPOLOGY, ESTIMATOR = "listwise", "ruler"
LIST_BUDGET = 400_000
"""Characters of one question, about 100 000 tokens at four characters a token: what most judges' windows hold."""
_FIXED = 4_000
"""Characters of the prompt's own text, generously."""


@dataclass(frozen=True)
class Listed:
    """What a jury makes of a list of trajectories, by the hash of the transcript."""

    scores: Mapping[str, Fraction]
    """On one scale, not clipped; empty where no juror has scored every list."""
    explanations: Mapping[str, str]
    lists: int
    used: tuple[str, ...]
    """Keys of the verdicts that it rests on."""
    failed: tuple[str, ...]
    """Keys of failed verdicts that left it without scores."""
    absent: tuple[str, ...]
    """Keys of jurors' verdicts that failed where the others' stand."""
    agreement: tuple[Agreement, ...]


async def rank_list(
    group: Group, judge: ListBuyer | ListJury, rules: Rules, rng: random.Random, budget: int = LIST_BUDGET
) -> GroupRanking:
    """Score a group's rollouts in one list, or in several of at most `budget` characters, and rank them by score.

    The order shown is drawn by `rng`. Equal transcripts are shown once and share their score; one alone is scored on
    an absolute scale. Without a verdict the group is incomplete and nothing is ranked.
    """
    ok = [r for r in group.rollouts if r.status == "ok"]
    anchor = next((r for r in ok if r.role == "anchor"), None)
    stopped = anchor is None and rules.anchor_failed == "stop"
    able = [] if stopped else ok
    texts = {r.index: transcribe(r.trajectory, rules.text_budget) for r in able}
    shared = texts[(anchor or able[0]).index] if able else None
    task, purse = task_of(group, rules), Purse()
    found = None
    if shared:
        found = await score_list(ListTask(task), list(texts.values()), shared, judge, purse, rng, budget)
    last = failed_last(group, rules) if found and found.scores else []
    tied = found is None or len(set(found.scores.values())) < 2
    signal: Signal = "none" if tied and not last else "ok"
    return GroupRanking(
        query=group.query.id,
        topology=TOPOLOGY,
        estimator=ESTIMATOR,
        status="incomplete" if found and found.failed else "complete",
        signal=signal,
        rollouts=_ranked(group, texts, found, last),
        failed_verdicts=found.failed if found else (),
        judged=sum(isinstance(v, Scored) for v in purse.bought.values()),
        reused=len(purse.reused),
        judge_usage=sum((v.usage for v in purse.bought.values()), Usage()),
        judge_usd=bill(purse),
        notes=(*_notes(ok, texts, found, purse, stopped=stopped), *cuts(texts)),
        verdicts=found.used if found else (),
        absent_verdicts=found.absent if found else (),
        agreement=found.agreement if found else (),
    )


async def score_list(
    about: ListTask,
    transcripts: Sequence[Transcript],
    shared: Transcript,
    judge: ListBuyer | ListJury,
    purse: Purse,
    rng: random.Random,
    budget: int = LIST_BUDGET,
) -> Listed:
    """Score transcripts by a jury, in as many lists as `budget` takes, each with `shared` among them."""
    jury = judge if isinstance(judge, ListJury) else ListJury([judge])
    chunks = in_chunks(transcripts, shared, budget - _FIXED - _size_of_task(about), rng)
    heard: dict[int, tuple[Scored | Unscored, ...]] = {}

    async def one(number: int) -> None:
        heard[number] = await jury.hear(about, chunks[number], purse)

    async with anyio.create_task_group() as lists:
        for number in range(len(chunks)):
            lists.start_soon(one, number)
    said = list(zip(*(heard[number] for number in range(len(chunks))), strict=True))  # by juror, then by list
    whole = [judged for juror in said if len(judged := [v for v in juror if isinstance(v, Scored)]) == len(juror)]
    failed = tuple(sorted({v.key for juror in said for v in juror if isinstance(v, Unscored)}))
    scores = {judged[0].judge: on_one_scale([_scores(v) for v in judged], shared.hash) for judged in whole}
    return Listed(
        scores={t.hash: average([s[t.hash] for s in scores.values()], jury.averaging) for t in transcripts if scores},
        explanations=_explanations(whole),
        lists=len(chunks),
        used=tuple(v.key for judged in whole for v in judged),
        failed=() if whole else failed,
        absent=failed if whole else (),
        agreement=agreement(_margins(scores)),
    )


def in_chunks(
    transcripts: Sequence[Transcript], shared: Transcript, room: int, rng: random.Random
) -> list[list[Transcript]]:
    """Return lists, each with `shared` and some of the others, of at most `room` characters where two fit at all.

    Each transcript but `shared` stands in exactly one, equal ones once; who goes where, and the order in each list,
    is drawn by `rng`.
    """
    others = list({t.hash: t for t in transcripts if t.hash != shared.hash}.values())
    rng.shuffle(others)
    chunks, left = [[shared]], room - _size(shared)
    for transcript in others:
        if _size(transcript) > left and len(chunks[-1]) > 1:
            chunks.append([shared])
            left = room - _size(shared)
        chunks[-1].append(transcript)
        left -= _size(transcript)
    for chunk in chunks:
        rng.shuffle(chunk)
    return chunks


def on_one_scale(lists: Sequence[Mapping[str, Fraction]], shared: str) -> dict[str, Fraction]:
    """Shift each list so that all give `shared` its mean score over the lists: s + (mean(a) - a_k)."""
    level = sum((scores[shared] for scores in lists), Fraction()) / len(lists)
    return {name: score + level - scores[shared] for scores in lists for name, score in scores.items()}


def clipped(score: Fraction) -> float:
    """Return a score as it is shown, within 0..1."""
    return float(min(Fraction(1), max(Fraction(0), score)))


def _scores(verdict: Scored) -> dict[str, Fraction]:
    return {t: exact(score) for t, score in zip(verdict.transcripts, verdict.scores, strict=True)}


def _explanations(whole: Sequence[Sequence[Scored]]) -> dict[str, str]:
    """Return the first explanation of each juror; its name goes before it where there are several."""
    told: dict[str, list[str]] = {}
    for judged in whole:
        own = {t: e for v in reversed(judged) for t, e in zip(v.transcripts, v.explanations, strict=True) if e}
        for transcript, text in own.items():
            told.setdefault(transcript, []).append(text if len(whole) == 1 else f"{judged[0].judge}: {text}")
    return {transcript: "\n".join(texts) for transcript, texts in told.items()}


def _margins(scores: Mapping[str, Mapping[str, Fraction]]) -> dict[str, dict[Hashable, float]]:
    return {
        juror: {(a, b): float(own[a] - own[b]) for a, b in combinations(sorted(own), 2)}
        for juror, own in scores.items()
    }


def _ranked(
    group: Group, texts: Mapping[int, Transcript], found: Listed | None, last: Sequence[int]
) -> tuple[Ranked, ...]:
    scores = {i: found.scores[t.hash] for i, t in texts.items()} if found and found.scores else {}
    places = place(scores, last)
    ranked: list[Ranked] = []
    verified = {r.index: r.verified for r in group.rollouts}
    for index in (r.index for r in group.rollouts):
        at, score = places.get(index), scores.get(index)
        ranked.append(
            Ranked(
                index=index,
                score=None if score is None else clipped(score),
                rank=at.rank if at else None,
                reward=at.reward if at else None,
                advantage=at.advantage if at else None,
                verified=verified.get(index),
                explanation=found.explanations.get(texts[index].hash) if found and index in texts else None,
            )
        )
    return tuple(ranked)


def _notes(
    ok: Sequence[Rollout], texts: Mapping[int, Transcript], found: Listed | None, purse: Purse, *, stopped: bool
) -> tuple[str, ...]:
    if found is None:
        why = "the anchor failed: left unranked, as --anchor-failed stop asks"
        return (why if ok and stopped else "no rollout ended well: nothing to rank",)
    told = list(jurors_missing(found.absent, purse))
    if len(texts) == 1:
        told.append("a single rollout carries no signal: it was scored once, on an absolute scale")
    elif len({t.hash for t in texts.values()}) == 1:
        told.append(f"all {len(texts)} trajectories are the same: scored once, on an absolute scale")
    return (*told, *scale_notes(found))


def scale_notes(found: Listed) -> tuple[str, ...]:
    """Return what is to be known of scores that come from several lists."""
    if found.lists == 1:
        return ()
    told = [f"judged in {found.lists} lists that share one trajectory; each is shifted so that all agree on its score"]
    if outside := sum(not 0 <= score <= 1 for score in found.scores.values()):
        told.append(f"{outside} shifted scores lay outside of 0 to 1 and are shown clipped; the ranks are from before")
    return tuple(told)


def _size(transcript: Transcript) -> int:
    return len(transcript.path) + len(transcript.answer)


def _size_of_task(about: ListTask) -> int:
    task: Task = about.task
    return sum(len(text or "") for text in (task.brief, task.reference, task.query, about.context, about.tools))
