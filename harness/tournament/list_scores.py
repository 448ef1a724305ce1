"""Scores from 0 to 1 for a list of transcripts, by a jury, in as many calls as the transcripts need.

Transcripts that do not fit into one call are judged in lists that share one transcript, the anchor's. With c lists and
the shared one's score a_k in list k, a score s of list k becomes s + (mean(a_1..a_c) - a_k): every list is shifted so
that all agree on what they share. Ranks are taken from these sums; what is shown is clipped to 0..1.
"""

import random
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import combinations

from harness.core.errors import ArchiveDamaged
from harness.core.rankings import Agreement
from harness.core.verdicts import Scored, Unscored
from harness.judging.juror import ListLedger
from harness.judging.jury import ListJury, all_at_once, average
from harness.judging.list_prompt import ListTask
from harness.ranking.judge_stats.agreement import agreement
from harness.ranking.topology import exact
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
    by_list = await all_at_once(partial(jury.hear, ledger, about, chunk) for chunk in chunks)
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
