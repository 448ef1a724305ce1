"""What a query's ranking came to, in the words and figures of the first screen."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.core.rankings import GroupRanking
from harness.core.records import Group, Rollout
from harness.core.rounded import sum_if_known
from harness.core.wording import counted
from harness.report import text
from harness.report.html.excerpts import ExcerptText, answer_excerpt
from harness.report.html.facts import SIGNAL, UNFINISHED, Fact, failed_words
from harness.report.summary.group import AgentFigures
from harness.report.summary.match_verdicts import VerdictLookup
from harness.report.summary.rollouts import (
    FirstPlaces,
    PlacedRollout,
    certainty,
    first_places,
    fit_behind,
    rollout_label,
    score_name,
    with_a_rank,
)

_ANSWER = 1_400
"""Characters of an answer on the first screen; the whole stands with the rollout."""
_SIDE_BY_SIDE = 4
"""Rollouts that share first place whose answers are shown on the first screen."""


@dataclass(frozen=True)
class Outcome:
    """Who won, by how much and how sure, with the answer."""

    kind: Literal["won", "seeded", "tie", "none"]
    """`seeded`: one rollout is first though its match with the second was a tie."""
    title: str
    """A few words: `Rollout 3 won`."""
    sentences: tuple[str, ...]
    """How the first two places compare, on what the first won, how sure first place is."""
    answers: tuple[tuple[Rollout, ExcerptText], ...]
    """The winner with its answer, or those that share first place; none where they are too many to show."""
    figures: tuple[Fact, ...]


def outcome(
    group: Group,
    ranking: GroupRanking,
    verdicts: VerdictLookup,
    agents: AgentFigures,
    verdicts_usd: float | None,
) -> Outcome:
    """Return what a ranking came to, and what it took: `verdicts_usd` for those that it rests on or waits for."""
    places = first_places(group, ranking, verdicts)
    kind, title = _kind_and_title(places)
    sentence, because = headline(places)
    sure = certainty(group, ranking)
    shown = places.leaders if 0 < len(places.leaders) <= _SIDE_BY_SIDE else ()
    judged = ranking.status == "complete"
    signal, meaning = (text.SIGNAL_WORDS[ranking.signal], SIGNAL[ranking.signal]) if judged else ("–", UNFINISHED)
    parts = f"agent {text.dollars(agents.usd)}, verdicts {text.dollars(verdicts_usd)}"
    runs, missing = agents.failed.total(), len(ranking.failed_verdicts)
    failed = [counted(n, what) for n, what in ((runs, "rollout"), (missing, "verdict")) if n]
    return Outcome(
        kind=kind,
        title=title,
        sentences=tuple(filter(None, (sentence, because, sure and text.as_sentence(sure)))),
        answers=tuple((r, answer_excerpt(r.trajectory, _ANSWER // len(shown))) for r in shown),
        figures=(
            *_winner_figures(with_a_rank(group, ranking), places, ranking),
            Fact("Signal", signal, meaning),
            Fact("Cost", text.dollars(sum_if_known((agents.usd, verdicts_usd))), parts),
            Fact("Failed", text.enumeration(failed) if failed else "nothing", failed_words(agents) if runs else ""),
        ),
    )


def headline(places: FirstPlaces) -> tuple[str, str]:
    """Return how the first two places compare, in a sentence, and a second sentence on why."""
    best, leaders = places.ranked, places.leaders
    if not best:
        return "No rollout has a place.", ""
    if len(best) == 1:
        return text.as_sentence(f"{rollout_label(best[0])} stands alone"), ""
    if len(leaders) == len(best):
        return f"All {len(best)} rollouts share one rank.", "The judging shows no difference."
    if len(leaders) > 1:
        return f"Rollouts {text.enumeration([str(r.index) for r in leaders])} share first place.", ""
    if places.match is None:
        others_failed = best[1].status == "failed"
        first = f"#1 {rollout_label(best[0])}." if others_failed else text.as_sentence(places.comparison)
        return first, "All others failed." if others_failed else ""
    reasons = places.match.reasons(lambda dimension, marks: f"{text.readable_name(dimension)} {text.signed(marks, 1)}")
    return text.as_sentence(places.comparison), text.as_sentence("; ".join(reasons) or "level on every dimension")


def _kind_and_title(places: FirstPlaces) -> tuple[Literal["won", "seeded", "tie", "none"], str]:
    if not places.leaders:
        return "none", "No winner"
    first, match = places.leaders[0], places.match
    if len(places.leaders) > 1:
        return "tie", "A tie" if len(places.leaders) == len(places.ranked) else "A tie for first place"
    if first.status != "ok":
        return "none", "All rollouts failed"
    if match is not None and match.score_first == match.score_second:
        return "seeded", f"Rollout {first.index} is first after a tie"
    return "won", f"Rollout {first.index} won"


def _winner_figures(placed: Sequence[PlacedRollout], places: FirstPlaces, ranking: GroupRanking) -> Iterator[Fact]:
    """Yield the score of the one winner, and how sure its place is; nothing where several share it."""
    if len(places.leaders) != 1:
        return
    scores = [(p.rollout.index, p.ranked.score) for p in placed[:2] if p.ranked.score is not None]
    if scores:
        note = score_name(ranking)
        if len(scores) > 1:
            note += f"; {text.signed(scores[0][1] - scores[1][1])} against rollout {scores[1][0]}, the second"
        yield Fact("Score", text.fixed(scores[0][1]), note)
    if len(placed) > 1 and placed[0].ranked.p_best is not None:
        yield Fact("Probably the best", text.probability(placed[0].ranked.p_best), f"by {fit_behind(ranking)}")
