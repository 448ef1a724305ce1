"""Agents behind models (--judge-agent-when unsure): the models play first, and their fit says what they leave open."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from harness.core.turns import my_turn
from harness.ranking.comparisons import Comparisons, Fit
from harness.ranking.conclusions import pair_of_fit
from harness.ranking.pooled import fit_by, learnt_from
from harness.ranking.topology import Topology
from harness.tournament.play import JurySource, PlayedTournament, VerdictScore, play

SURE = 0.9
"""From this posterior probability on that the leader of a pair is the better one, no agent is asked.

Of such pairs at most 4 % are wrong under the noisy judges of benchmarks/simulated_groups.py (groups of 4 and 8, each by
itself), against 14 to 17 % of those in which both orders agree and lead by a mark. At .8 it would be up to 8 %; .95
sends one pair in ten more to the agent, and leaves hardly less. tests/tournament/test_cascade.py holds it to that.
"""

_Pair = frozenset[int]


@dataclass(frozen=True)
class _Staged(JurySource):
    """Asks the agents of the pairs that are `left` for them alone."""

    models: JurySource
    left: set[_Pair] = field(default_factory=set[_Pair])
    heard: dict[tuple[int, int, int], Sequence[VerdictScore]] = field(default_factory=dict[Any, Any])
    """Each juror's verdict by first, second and repeat."""

    async def judge(self, first: int, second: int, repeat: int) -> Sequence[VerdictScore]:
        """Return each juror's verdict."""
        asked = super() if frozenset((first, second)) in self.left else self.models
        self.heard[first, second, repeat] = verdicts = await asked.judge(first, second, repeat)
        return verdicts

    def cached(self, first: int, second: int, repeat: int) -> Sequence[VerdictScore] | None:
        """Return each juror's verdict if that needs no waiting; None otherwise."""
        asked = super() if frozenset((first, second)) in self.left else self.models
        if verdicts := asked.cached(first, second, repeat):
            self.heard[first, second, repeat] = verdicts
        return verdicts

    def decide(self) -> dict[_Pair, bool]:
        """Return of each pair that all models judged, or failed at, whether it is left for the agents."""
        seats, pairs = self.models.jury.asked, dict[_Pair, list[tuple[int, int, VerdictScore]]]()
        for (first, second, _), verdicts in sorted(self.heard.items()):
            pairs.setdefault(frozenset((first, second)), []).extend(
                (first, second, v) for v in verdicts if v.juror in seats
            )
        entrants = sorted({entrant for pair in pairs for entrant in pair})
        calls = [call for of_pair in pairs.values() for call in of_pair if not call[-1].failed]
        fit = _fit(entrants, calls) if calls else None
        decided = dict[_Pair, bool]()
        for pair, of_pair in pairs.items():
            a, b = sorted(pair)
            if any(v.failed and v.key not in self.ledger.bought for *_, v in of_pair):
                continue  # it was not bought
            margins = [(v.score_first - v.score_second) * (1 if first == a else -1) for first, _, v in of_pair]
            estimate, lead = fit and pair_of_fit(fit, entrants, a, b), sum(margins)
            above = estimate.p_above if estimate else 0.5
            is_sure = max(margins) * min(margins) >= 0 and (above if lead > 0 else 1 - above if lead < 0 else 0) >= SURE
            equal = self.texts[a].hash == self.texts[b].hash  # no agent can tell them apart
            decided[pair] = any(v.failed for *_, v in of_pair) or not (equal or is_sure)
        return decided


def _fit(entrants: Sequence[int], calls: Sequence[tuple[int, int, VerdictScore]]) -> Fit:
    """Return the fit of one group's calls by what is known of any judge."""
    first, second = ([entrants.index(call[side]) for call in calls] for side in (0, 1))
    scores = zip(*((v.score_first, v.score_second, v.juror) for *_, v in calls), strict=True)
    group = Comparisons.of(len(entrants), first, second, *scores)
    return fit_by(learnt_from([group]), [group], tell_p_value=False)[0]


async def play_in_stages(topology: Topology, source: JurySource) -> PlayedTournament:
    """Play a topology that has just begun; with agents behind models anew until no pair is left for the agents.

    First the models play alone. A pair is left for the agents where a model's verdict failed, where two verdicts of
    the models name opposite winners, or where `pooled` makes who leads in them the better one with less than SURE: the
    fit of all that the models said of the group so far, by what is known of any judge. With the agents' verdicts on
    these pairs it is played anew; what it then asks for is decided in the same way, and each pair once. So the
    decisions follow from the verdicts alone. A pair on which a model's verdict was not bought waits for it.
    """
    if source.jury.before is None:
        return await play(topology, source)
    staged = _Staged(**vars(source), models=replace(source, jury=source.jury.before))
    decided = dict[_Pair, bool]()
    while True:
        played = await play(deepcopy(topology), staged)
        await my_turn()  # a fit takes a while
        decided = staged.decide() | decided
        left = {pair for pair, is_left in decided.items() if is_left}
        if left <= staged.left:
            return played
        staged.left.update(left)
