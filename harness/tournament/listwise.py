"""`--judge ruler`: a group's transcripts scored from 0 to 1 in lists by a jury, and ranked by score.

Transcripts that do not fit into one call are judged in lists that share one transcript, the anchor's. With c lists and
the shared one's score a_k in list k, a score s of list k becomes s + (mean(a_1..a_c) - a_k): every list is shifted so
that all agree on what they share. Ranks are taken from these sums; what is shown is clipped to 0..1.
"""

import random
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import combinations
from random import Random

from anyio.abc import TaskGroup

from harness.core.errors import ArchiveDamaged
from harness.core.rankings import Agreement, GroupRanking, Ranked
from harness.core.records import Group
from harness.core.verdicts import Scored, Unscored
from harness.judging.judge_model import JudgeModel
from harness.judging.judges import RulerJudge
from harness.judging.jury import ListJury, ListLedger, all_at_once, average
from harness.judging.prompt import ListTask
from harness.judging.rubric_files import ListRubric, is_packaged_list_rubric, load_list_rubric, parse_list_rubric
from harness.judging.verdict_cache import CachedListJudge, VerdictCache
from harness.ranking.judge_stats.agreement import agreement
from harness.ranking.rewards import place
from harness.ranking.topology import exact
from harness.tournament.group import Entrants, Rules, cuts, failed_last, jurors_missing, prepare_entrants
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
    chunks = in_chunks(transcripts, shared, budget - _FIXED - _size_of_task(about), rng)
    by_list = await all_at_once(partial(jury.verdicts, ledger, about, chunk) for chunk in chunks)
    complete = _complete(list(zip(*by_list, strict=True)))
    _check_lists(complete, chunks)
    failed = _failed_keys(by_list)
    scores = {lists[0].judge: on_one_scale([_scores(v) for v in lists], shared.hash) for lists in complete}
    return JuryScores(
        scores=_averaged(transcripts, list(scores.values()), jury),
        explanations=_explanations(complete),
        lists=len(chunks),
        used=tuple(v.key for lists in complete for v in lists),
        failed=() if complete else failed,
        absent=failed if complete else (),
        agreement=agreement(_margins(scores)),
    )


def _check_lists(complete: Sequence[Sequence[Scored]], chunks: Sequence[Sequence[Transcript]]) -> None:
    """Raise ArchiveDamaged for a verdict, kept by somebody, that lacks a transcript of the list its key stands for."""
    for verdict, chunk in (pair for lists in complete for pair in zip(lists, chunks, strict=True)):
        if not {t.hash for t in chunk}.issubset(verdict.transcripts):
            raise ArchiveDamaged(f"verdict {verdict.key}: it scores other transcripts than its key stands for")


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


def _complete(by_juror: Iterable[Sequence[Scored | Unscored]]) -> list[list[Scored]]:
    """Return, for each juror that scored every list, its verdicts."""
    scored = [[v for v in verdicts if isinstance(v, Scored)] for verdicts in by_juror if _all_scored(verdicts)]
    return [verdicts for verdicts in scored if verdicts]


def _all_scored(verdicts: Iterable[Scored | Unscored]) -> bool:
    return all(isinstance(v, Scored) for v in verdicts)


def _failed_keys(by_list: Iterable[Sequence[Scored | Unscored]]) -> tuple[str, ...]:
    return tuple(sorted({v.key for verdicts in by_list for v in verdicts if isinstance(v, Unscored)}))


def _scores(verdict: Scored) -> dict[str, Fraction]:
    return {t: exact(score) for t, score in zip(verdict.transcripts, verdict.scores, strict=True)}


def _averaged(
    transcripts: Sequence[Transcript], by_juror: Sequence[Mapping[str, Fraction]], jury: ListJury
) -> dict[str, Fraction]:
    if not by_juror:
        return {}
    return {t.hash: average([scores[t.hash] for scores in by_juror], jury.averaging) for t in transcripts}


def _explanations(complete: Sequence[Sequence[Scored]]) -> dict[str, str]:
    """Return the first explanation of each juror; its name goes before it where there are several."""
    texts: dict[str, list[str]] = {}
    for lists in complete:
        for transcript, explanation in _first_explanations(lists).items():
            text = explanation if len(complete) == 1 else f"{lists[0].judge}: {explanation}"
            texts.setdefault(transcript, []).append(text)
    return {transcript: "\n".join(lines) for transcript, lines in texts.items()}


def _first_explanations(lists: Sequence[Scored]) -> dict[str, str]:
    pairs = [pair for v in reversed(lists) for pair in zip(v.transcripts, v.explanations, strict=True)]
    return {transcript: explanation for transcript, explanation in pairs if explanation}


def _margins(scores: Mapping[str, Mapping[str, Fraction]]) -> dict[str, dict[Hashable, float]]:
    return {
        juror: {(a, b): float(of_juror[a] - of_juror[b]) for a, b in combinations(sorted(of_juror), 2)}
        for juror, of_juror in scores.items()
    }


def _size(transcript: Transcript) -> int:
    return len(transcript.path) + len(transcript.answer)


def _size_of_task(about: ListTask) -> int:
    task = about.task
    return sum(len(text or "") for text in (task.brief, task.reference, task.query, about.context, about.tools))


TOPOLOGY, ESTIMATOR = "listwise", "ruler"


class ListwiseMethod:
    """`--judge ruler`: one call scores a whole group, by a rubric in plain words."""

    summary = "scores a whole group at once"
    without_effect = ("topology", "order", "estimator", "reward", "budget", "confidence", "judge_repeats")
    ranks_from_matches = False

    def load_rubric(self, name: str) -> ListRubric:
        """Return the packaged text, or that of a file. Raises UsageError."""
        return load_list_rubric(name)

    def is_packaged(self, name: str) -> bool:
        """Whether a text of that name comes with the package."""
        return is_packaged_list_rubric(name)

    def parse_rubric(self, text: str, label: str, where: str) -> ListRubric:
        """Return a text as a rubric of the name in `label`. Raises UsageError naming `where`."""
        return parse_list_rubric(text, label.rpartition(" ")[0], where)

    def describe(self, rules: Rules, n: int) -> str | None:
        """Return None: there is no design to choose."""
        del rules, n

    def call_bounds(self, rules: Rules, n: int) -> tuple[int, int]:
        """Return the fewest and the most calls of one juror: one list, or a list for each rollout beside the anchor."""
        del rules
        return 1, max(1, n - 1)

    def ranker(
        self, models: Sequence[JudgeModel], rubric: ListRubric, cache: VerdictCache, rules: Rules
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
        low, high = ListwiseMethod().call_bounds(self.rules, n)
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
    if entrants.lineup.is_stopped(rules) or not entrants.lineup.ok:
        return _unscored(group, entrants)
    texts = entrants.texts
    shared = texts[(entrants.lineup.anchor or entrants.lineup.ok[0]).index]
    scores = await score_list(ListTask(entrants.task), list(texts.values()), shared, jury, ledger, rng, budget)
    last = failed_last(group.rollouts, rules) if scores.scores else []
    tied = len(set(scores.scores.values())) < 2
    return GroupRanking(
        query=group.query.id,
        topology=TOPOLOGY,
        estimator=ESTIMATOR,
        status="incomplete" if scores.failed else "complete",
        signal="none" if tied and not last else "ok",
        rollouts=_ranked(group, entrants, scores, last),
        failed_verdicts=scores.failed,
        judged=ledger.judged,
        reused=len(ledger.reused),
        judge_usage=ledger.usage,
        judge_usd=ledger.price_usd,
        notes=(*jurors_missing(scores.absent, ledger.bought), *_notes(entrants, scores), *cuts(entrants.lineup.cut)),
        verdicts=scores.used,
        absent_verdicts=scores.absent,
        agreement=scores.agreement,
    )


def _unscored(group: Group, entrants: Entrants) -> GroupRanking:
    stopped = "the anchor failed: left unranked, as --anchor-failed stop asks"
    return GroupRanking(
        query=group.query.id,
        topology=TOPOLOGY,
        estimator=ESTIMATOR,
        status="complete",
        signal="none",
        rollouts=tuple(Ranked(index=r.index, verified=r.verified) for r in group.rollouts),
        notes=(stopped if entrants.lineup.ok else "no rollout ended well: nothing to rank",),
    )


def _ranked(group: Group, entrants: Entrants, scores: JuryScores, last: Sequence[int]) -> tuple[Ranked, ...]:
    """Return every rollout's place; without scores nobody has one."""
    hashes = {index: text.hash for index, text in entrants.texts.items()}
    by_index = {index: scores.scores[hash_] for index, hash_ in hashes.items() if hash_ in scores.scores}
    places = place(by_index, last)
    ranked = {
        index: Ranked(
            index=index,
            score=clipped(by_index[index]) if index in by_index else None,
            rank=placed.rank,
            reward=placed.reward,
            advantage=placed.advantage,
        )
        for index, placed in places.items()
    }
    return tuple(
        ranked.get(r.index, Ranked(index=r.index)).model_copy(
            update={"verified": r.verified, "explanation": scores.explanations.get(hashes.get(r.index, ""))}
        )
        for r in group.rollouts
    )


def _notes(entrants: Entrants, scores: JuryScores) -> tuple[str, ...]:
    texts = entrants.texts
    if len(texts) == 1:
        alone = ("a single rollout carries no signal: it was scored once, on an absolute scale",)
    elif len({text.hash for text in texts.values()}) == 1:
        alone = (f"all {len(texts)} trajectories are the same: scored once, on an absolute scale",)
    else:
        alone = ()
    return (*alone, *scale_notes(scores))
