"""Which two rollouts of a query make a preference, and whether the judging bears it out."""

from collections.abc import Iterator, Sequence
from itertools import combinations, islice, pairwise

from harness.core.rankings import Match
from harness.formats.training.candidates import Candidate, RankedGroup
from harness.formats.training.losses import Losses
from harness.formats.training.rules import USUAL_CONFIDENCE, ExportRules, PairChoice

RankedPair = tuple[Candidate, Candidate]
"""The better and the worse."""


def preference_pairs(
    group: RankedGroup, choices: Sequence[Candidate], rules: ExportRules, losses: Losses
) -> Iterator[RankedPair]:
    """Yield the pairs of a group that the judging bears out; the others are counted. `choices` are best first."""
    if group.ranked.pairs:
        yield from _imported(group.ranked.pairs, choices, rules, losses)
        return
    probabilities = group.odds(group.ranked)
    sound: list[RankedPair] = []
    for pair in chosen_pairs(choices, rules.pairs):
        reason = _fault(pair, group, rules, probabilities.get((pair[0].index, pair[1].index)))
        if reason:
            losses.add("pair", reason)
        else:
            sound.append(pair)
    sound.sort(key=lambda pair: -_gap(*pair))
    if rules.per_query is not None and len(sound) > rules.per_query:
        losses.add("pair", f"more than {rules.per_query} of a query", len(sound) - rules.per_query)
    yield from islice(sound, rules.per_query)


def _imported(
    pairs: Sequence[tuple[int, int]], choices: Sequence[Candidate], rules: ExportRules, losses: Losses
) -> Iterator[RankedPair]:
    """Yield imported preferences as they came: whoever made them chose the pairs, and holds that they are sound."""
    left = {candidate.index: candidate for candidate in choices}
    sound = [(left[better], left[worse]) for better, worse in pairs if better in left and worse in left]
    if rules.per_query is not None and len(sound) > rules.per_query:
        losses.add("pair", f"more than {rules.per_query} of a query", len(sound) - rules.per_query)
    yield from islice(sound, rules.per_query)


def chosen_pairs(choices: Sequence[Candidate], choice: PairChoice) -> list[RankedPair]:
    """Return pairs of different rank, the better first: best and worst, the best with all, neighbours, or all."""
    match choice:
        case "best-worst":
            pairs = [(choices[0], choices[-1])] if choices else []
        case "best-all":
            pairs = [(choices[0], other) for other in choices[1:]]
        case "adjacent":
            pairs = list(pairwise(choices))
        case "all":
            pairs = list(combinations(choices, 2))
    return [(better, worse) for better, worse in pairs if better.place.rank != worse.place.rank]


def _fault(pair: RankedPair, group: RankedGroup, rules: ExportRules, probability: float | None) -> str | None:
    """Return why the judging does not bear a pair out, or None."""
    better, worse = (candidate.index for candidate in pair)
    met = [match for match in group.ranked.matches if {match.a, match.b} == {better, worse} and not match.repeated]
    if any(match.cut for match in met) and "cut" not in rules.included:
        return "the judge did not see the whole of an answer"
    if any(map(_in_both_orders, met)):
        reason = _fault_of_orders(met, better)
    elif group.both_orders and rules.confidence is None:
        reason = "never judged against each other in both orders (--confidence P takes such pairs by their probability)"
    else:
        least = USUAL_CONFIDENCE if rules.confidence is None else rules.confidence
        unsure = least > 0 and (probability is None or probability < least)
        reason = f"p(better above worse) is below {least:g}, or not known" if unsure else None
    return reason or (f"a margin below {rules.least_margin:g}" if _gap(*pair) < rules.least_margin else None)


def _fault_of_orders(met: Sequence[Match], better: int) -> str | None:
    if any(match.flipped for match in met):
        return "the two orders name opposite winners"
    if any(match.inconsistent or match.winner is None for match in met):
        return "one of the two orders, or both, name a tie"
    return None if all(match.winner == better for match in met) else "their own match went the other way"


def _in_both_orders(match: Match) -> bool:
    return len(set(match.shown_first)) == 2


def _gap(better: Candidate, worse: Candidate) -> float:
    """Return how far apart two rollouts are, in score points: by the margins, else by the scores."""
    first, second = better.place, worse.place
    if first.margin is not None and second.margin is not None:
        return first.margin - second.margin
    return (first.score or 0.0) - (second.score or 0.0)
