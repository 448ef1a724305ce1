"""`--judge ruler`: a group's transcripts scored from 0 to 1 in lists by a jury, and ranked by score.

Transcripts that do not fit into one call are judged in lists that share one transcript, the anchor's. With c lists and
the shared one's score a_k in list k, a score s of list k becomes s + (mean(a_1..a_c) - a_k): every list is shifted so
that all agree on what they share. Ranks are taken from these sums; what is shown is clipped to 0..1.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import combinations
from random import Random

from anyio.abc import TaskGroup

from harness.core.errors import ArchiveDamaged
from harness.core.rankings import Agreement, GroupRanking, Ranked, Scored, Unscored
from harness.core.records import Group
from harness.judging.judge_model import JudgeModel
from harness.judging.judges import RulerJudge
from harness.judging.prompt import ListTask
from harness.judging.rubric import ListRubric
from harness.judging.verdict_cache import CachedListJudge, ListJury, ListLedger, VerdictCache, all_at_once, average
from harness.ranking.judge_stats.agreement import agreement
from harness.ranking.rewards import place
from harness.ranking.topology import exact
from harness.tournament.group import Rules, cuts, failed_last, jurors_missing, prepare_entrants
from harness.tournament.pairwise import EarlyVerdicts
from harness.transcripts.transcript import Transcript

LIST_BUDGET = 400_000
"""Characters of one question, about 100 000 tokens at four characters a token: what most judges' windows hold."""
_FIXED = 4_000
"""Characters of the prompt's own text, generously."""


@dataclass(frozen=True)
class JuryScores:
    """What a jury makes of a list of transcripts, by the hash of the transcript."""

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


async def score_list(
    about: ListTask,
    transcripts: Sequence[Transcript],
    shared: Transcript,
    jury: ListJury,
    ledger: ListLedger,
    rng: random.Random,
    budget: int = LIST_BUDGET,
) -> JuryScores:
    """Score transcripts by a jury, in as many lists as `budget` takes, each with `shared` among them."""
    texts = (about.task.brief, about.task.reference, about.task.query, about.context, about.tools)
    chunks = in_chunks(transcripts, shared, budget - _FIXED - sum(len(text or "") for text in texts), rng)
    by_list = await all_at_once(partial(jury.verdicts, ledger, about, chunk) for chunk in chunks)
    scored = ([v for v in verdicts if isinstance(v, Scored)] for verdicts in zip(*by_list, strict=True))
    complete = [verdicts for verdicts in scored if len(verdicts) == len(chunks)]
    for verdict, chunk in (pair for lists in complete for pair in zip(lists, chunks, strict=True)):
        if not {t.hash for t in chunk}.issubset(verdict.transcripts):  # somebody kept it
            raise ArchiveDamaged(f"verdict {verdict.key}: it scores other transcripts than its key stands for")
    failed = tuple(sorted({v.key for verdicts in by_list for v in verdicts if isinstance(v, Unscored)}))
    of_lists = {
        lists[0].judge: [{t: exact(s) for t, s in zip(v.transcripts, v.scores, strict=True)} for v in lists]
        for lists in complete
    }
    scores = {juror: on_one_scale(lists, shared.hash) for juror, lists in of_lists.items()}
    return JuryScores(
        scores={t.hash: average([of[t.hash] for of in scores.values()], jury.averaging) for t in transcripts if scores},
        explanations=_explanations(complete),
        lists=len(chunks),
        used=tuple(v.key for lists in complete for v in lists),
        failed=() if complete else failed,
        absent=failed if complete else (),
        agreement=agreement(
            {
                juror: {(a, b): float(of_juror[a] - of_juror[b]) for a, b in combinations(sorted(of_juror), 2)}
                for juror, of_juror in scores.items()
            }
        ),
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


def scale_notes(jury_scores: JuryScores) -> tuple[str, ...]:
    """Return what is to be known of scores that come from several lists."""
    lists = jury_scores.lists
    if lists == 1:
        return ()
    notes = [f"judged in {lists} lists that share one trajectory; each is shifted so that all agree on its score"]
    if outside := sum(not 0 <= score <= 1 for score in jury_scores.scores.values()):
        notes.append(f"{outside} shifted scores lay outside of 0 to 1 and are shown clipped; the ranks are from before")
    return tuple(notes)


def _explanations(complete: Sequence[Sequence[Scored]]) -> dict[str, str]:
    """Return the first explanation of each juror; its name goes before it where there are several."""
    texts: dict[str, list[str]] = {}
    for lists in complete:
        pairs = [pair for v in reversed(lists) for pair in zip(v.transcripts, v.explanations, strict=True)]
        for transcript, explanation in {transcript: text for transcript, text in pairs if text}.items():
            text = explanation if len(complete) == 1 else f"{lists[0].judge}: {explanation}"
            texts.setdefault(transcript, []).append(text)
    return {transcript: "\n".join(lines) for transcript, lines in texts.items()}


def _size(transcript: Transcript) -> int:
    return len(transcript.path) + len(transcript.answer)


TOPOLOGY, ESTIMATOR = "listwise", "ruler"


def list_bounds(_rules: Rules, n: int) -> tuple[int, int]:
    """Return the fewest and the most calls of one juror: one list, or a list for each rollout beside the anchor."""
    return 1, max(1, n - 1)


def seat_list_jury(
    models: Sequence[JudgeModel], rubric: ListRubric, cache: VerdictCache, rules: Rules
) -> "ListwiseRanker":
    """Seat a judge for each model."""
    jurors = [CachedListJudge(RulerJudge(model, rubric), cache) for model in models]
    return ListwiseRanker(ListJury(jurors, rules.averaging), rules)


@dataclass(frozen=True)
class ListwiseRanker:
    """Ranks groups by the scores that a jury gives to lists."""

    jury: ListJury
    rules: Rules
    topology = TOPOLOGY
    estimator = ESTIMATOR
    way = None
    cached_ranker = None
    adaptive = False
    provisional = False

    def call_bounds(self, n: int) -> tuple[int, int]:
        """Return the fewest and the most judge calls for a group of n, those of all jurors."""
        low, high = list_bounds(self.rules, n)
        return low * len(self.jury), high * len(self.jury)

    def finalize(self, queries: Sequence[str], provisional: Callable[[str], GroupRanking]) -> Iterator[GroupRanking]:
        """Yield the rankings as they are: each counts as soon as its group is in."""
        return map(provisional, queries)

    def early(self, tasks: TaskGroup) -> None:
        """Give nothing: a list is judged when all of it is there."""

    async def __call__(self, group: Group, early: EarlyVerdicts | None = None) -> GroupRanking:
        """Return the group's ranking; see rank_list."""
        del early
        return await rank_list(group, self.jury, self.rules, self.rules.rng(group.query.id))


async def rank_list(group: Group, jury: ListJury, rules: Rules, rng: Random, budget: int = LIST_BUDGET) -> GroupRanking:
    """Score a group's rollouts in one list, or in several of at most `budget` characters, and rank them by score.

    The order shown is drawn by `rng`. Equal transcripts are shown once and share their score; one alone is scored on
    an absolute scale. Without a verdict the group is incomplete and nothing is ranked.
    """
    entrants, ledger = prepare_entrants(group, rules), ListLedger()
    lineup, texts = entrants.lineup, entrants.texts
    if lineup.is_stopped(rules) or not lineup.ok:
        stopped = "the anchor failed: left unranked, as --anchor-failed stop asks"
        return GroupRanking(
            query=group.query.id,
            topology=TOPOLOGY,
            estimator=ESTIMATOR,
            status="complete",
            signal="none",
            rollouts=tuple(Ranked(index=r.index, verified=r.verified) for r in group.rollouts),
            notes=(stopped if lineup.ok else "no rollout ended well: nothing to rank",),
        )
    shared = texts[(lineup.anchor or lineup.ok[0]).index]
    scores = await score_list(ListTask(entrants.task), list(texts.values()), shared, jury, ledger, rng, budget)
    last = failed_last(lineup.rollouts, rules) if scores.scores else []
    hashes = {index: text.hash for index, text in texts.items()}
    by_index = {index: scores.scores[hash_] for index, hash_ in hashes.items() if hash_ in scores.scores}
    shown = {index: Fraction(clipped(score)) for index, score in by_index.items()}
    places = place(by_index, last, values=shown if rules.reward == "score" else None)
    alone: tuple[str, ...] = ()
    if len(texts) == 1:
        alone = ("a single rollout carries no signal: it was scored once, on an absolute scale",)
    elif len({*hashes.values()}) == 1:
        alone = (f"all {len(texts)} trajectories are the same: scored once, on an absolute scale",)
    return GroupRanking(
        query=group.query.id,
        topology=TOPOLOGY,
        estimator=ESTIMATOR,
        status="incomplete" if scores.failed else "complete",
        signal="none" if len(set(scores.scores.values())) < 2 and not last else "ok",
        rollouts=tuple(
            Ranked(
                index=r.index,
                score=float(shown[r.index]) if r.index in shown else None,
                verified=r.verified,
                explanation=scores.explanations.get(hashes.get(r.index, "")),
                **(places[r.index]._asdict() if r.index in places else {}),
            )
            for r in group.rollouts
        ),
        reward_from=rules.reward,
        failed_verdicts=scores.failed,
        judged=ledger.judged,
        reused=len(ledger.reused),
        judge_usage=ledger.usage,
        **ledger.prices,
        notes=(*jurors_missing(scores.absent, ledger.bought), *alone, *scale_notes(scores), *cuts(lineup.cut)),
        verdicts=scores.used,
        absent_verdicts=scores.absent,
        agreement=scores.agreement,
    )
