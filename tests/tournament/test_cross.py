"""Cross matches: both orders, failures lose without a call, what is missing stays open."""

import anyio

from harness.archive.store import MemoryStore
from harness.core.comparisons import CrossMatch
from harness.core.records import Rollout
from harness.judging.prompt import Task
from harness.judging.verdict_cache import CachedPairJudge, PairJury, PairLedger, VerdictCache
from harness.tournament.pairwise import CrossPair, Place, PlayedPairs, play_cross
from tests.builders import ScriptedJudge, a_rollout, a_transcript, by_strength

TASK = Task("q", "Why?")
WORTH = {"weak": 3.0, "strong": 8.0, "even": 5.0}


def played(judge: ScriptedJudge, pairs: list[CrossPair], rollouts: dict[Place, Rollout]) -> PlayedPairs:
    texts = {place: a_transcript(r.trajectory.answer) for place, r in rollouts.items() if r.status == "ok"}
    jury = PairJury([CachedPairJudge(judge, VerdictCache(MemoryStore()))])

    async def play() -> PlayedPairs:
        return await play_cross(pairs, rollouts, texts, TASK, jury, PairLedger(), 1)

    return anyio.run(play)


def pair(first: int, second: int, sides: tuple[int, int] = (0, 1)) -> CrossPair:
    return CrossPair(sides, "sample", first, second)


def test_scores_stand_on_the_side_that_they_are_of_whoever_stood_first() -> None:
    judge = ScriptedJudge(by_strength(WORTH))
    rollouts = {(0, 1): a_rollout(1, "weak"), (1, 1): a_rollout(1, "strong")}
    (match,) = played(judge, [pair(1, 1)], rollouts).matches
    assert sorted(judge.calls) == [("strong", "weak"), ("weak", "strong")]
    assert match.shown_first == ("first", "second")
    assert match.scores == ((3.0, 8.0), (3.0, 8.0))
    assert (match.score_first, match.score_second, match.winner, match.outcome) == (3.0, 8.0, "second", 1.0)


def test_a_judge_that_likes_the_first_side_gives_a_flipped_tie() -> None:
    judge = ScriptedJudge(lambda first, second: (7.0, 4.0))
    rollouts = {(0, 1): a_rollout(1, "weak"), (1, 1): a_rollout(1, "strong")}
    (match,) = played(judge, [pair(1, 1)], rollouts).matches
    assert (match.winner, match.flipped, match.outcome) == ("tie", True, 0.5)


def test_who_failed_loses_without_a_call() -> None:
    judge = ScriptedJudge(by_strength(WORTH))
    failed, fine = a_rollout(1, failed="timeout"), a_rollout(1, "weak")
    for first, second, forfeit, outcome in (
        (failed, fine, "first", 1.0),
        (fine, failed, "second", 0.0),
        (failed, failed, "both", 0.5),
    ):
        (match,) = played(judge, [pair(1, 1)], {(0, 1): first, (1, 1): second}).matches
        assert (match.forfeit, match.outcome, match.verdicts) == (forfeit, outcome, ())
    assert not judge.calls


def test_a_verdict_that_fails_leaves_its_match_open_and_no_other() -> None:
    script = by_strength(WORTH)
    judge = ScriptedJudge(lambda a, b: None if (a, b) == ("even", "strong") else script(a, b))
    rollouts = {(0, 1): a_rollout(1, "weak"), (0, 2): a_rollout(2, "even"), (1, 1): a_rollout(1, "strong")}
    result = played(judge, [pair(1, 1), pair(2, 1)], rollouts)
    assert [match.outcome for match in result.matches] == [1.0, None]
    assert result.matches[1] == CrossMatch(sides=(0, 1), role="sample", first=2, second=1)
    assert len(result.failed_verdicts) == 1


def test_matches_of_three_sides_are_told_apart() -> None:
    judge = ScriptedJudge(by_strength(WORTH))
    rollouts = {(0, 1): a_rollout(1, "weak"), (1, 1): a_rollout(1, "strong"), (2, 1): a_rollout(1, "even")}
    pairs = [pair(1, 1, sides) for sides in ((0, 1), (0, 2), (1, 2))]
    assert [(m.sides, m.outcome) for m in played(judge, pairs, rollouts).matches] == [
        ((0, 1), 1.0),
        ((0, 2), 1.0),
        ((1, 2), 0.0),
    ]
