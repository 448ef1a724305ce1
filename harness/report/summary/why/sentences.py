"""A pair's explanation in sentences, for terminal and page alike. None ends with a full stop."""

from harness.core.wording import counted
from harness.report.summary.why.pair_records import Meeting, PairExplanation, PairSide
from harness.report.summary.why.paths import ToolCall
from harness.report.text import beginning, fixed, probability

_TIMES = {1: "once", 2: "twice"}
_LEVEL = 1e-9
"""Mean scores that differ by less differ by how sums are rounded."""


def side_name(side: PairSide) -> str:
    """Return what a sentence calls a side: `rollout 3`, with a word for the anchor."""
    return f"rollout {side.index}" + (" (anchor)" if side.role == "anchor" else "")


def standing_sentence(why: PairExplanation) -> str:
    """Return how the two stand: who is above, by places."""
    a, b = why.a, why.b
    if why.above is None:
        if a.rank is not None and a.rank == b.rank:
            return f"{side_name(a)} and {side_name(b)} share place {a.place.lstrip('=')}"
        without = " and ".join(side_name(side) for side in (a, b) if side.rank is None)
        return f"{side_name(a)} and {side_name(b)}: no place for {without}"
    high, low = (a, b) if why.above == "a" else (b, a)
    return f"#{high.place.lstrip('=')} {side_name(high)} stands above #{low.place.lstrip('=')} {side_name(low)}"


def lead_sentence(why: PairExplanation) -> str:
    """Return by how much one side leads and how sure that is; "" where nothing compares them."""
    if why.difference is None:
        return ""
    high, low = (why.a, why.b) if why.difference >= 0 else (why.b, why.a)
    lead = fixed(abs(why.difference))
    if why.sd is None or why.p_above is None:
        return f"{side_name(high)} leads by {lead} ({why.score_name})"
    if abs(why.difference) < _LEVEL:
        return f"level by all judged calls, ± {fixed(why.sd)} score points"
    sure = probability(max(why.p_above, 1 - why.p_above))
    return (
        f"{side_name(high)} leads by {lead} ± {fixed(why.sd)} score points, by all judged calls of the group, and is "
        f"above {side_name(low)} with a probability of {sure}{_level(why)}"
    )


def _level(why: PairExplanation) -> str:
    """Return a clause where the level of the marks decides: their differences alone put the other side ahead."""
    alone = why.by_differences
    if alone is None or why.difference is None or alone * why.difference > 0 or abs(alone) < _LEVEL:
        return ""
    ahead = side_name(why.a if alone > 0 else why.b)
    return f"; the level of the marks decides: by their differences alone, {ahead} leads by {fixed(abs(alone))}"


def matches_sentence(why: PairExplanation) -> str:
    """Return whether and how they met: who won, and whether the swap changed the winner."""
    if why.listwise:
        return "one judge scored the group as a list: the two met in no match"
    played = [meeting for meeting in why.matches if not meeting.repeated]
    if not played:
        return "the two never met"
    times = _TIMES.get(len(played), f"{len(played)} times")
    again = " (and once more on the same scores)" if len(played) < len(why.matches) else ""
    return f"they met {times}{again}: {_outcome(why, played)}"


def _outcome(why: PairExplanation, played: list[Meeting]) -> str:
    lead = sum(meeting.mean[0] - meeting.mean[1] for meeting in played) / len(played)
    won = "a tie" if abs(lead) < _LEVEL else f"{side_name(why.a if lead > 0 else why.b)} ahead by {fixed(abs(lead))}"
    return f"{won}, {_swap(played)}{_surprise(why, lead)}"


def _swap(played: list[Meeting]) -> str:
    firsts = {first for meeting in played for first in meeting.shown_first}
    if len(firsts) < 2:
        return "judged in one order only"
    leads = _leads_by_order(played)
    if any(meeting.flipped for meeting in played) or {1, -1} <= leads:
        return "the swap changed the winner"
    if leads == {0}:
        return "both orders call it a tie"
    if any(meeting.inconsistent for meeting in played) or 0 in leads:
        return "one order calls it a tie"
    return "the swap did not change the winner"


def _leads_by_order(played: list[Meeting]) -> set[int]:
    """Return who leads where either stood first, over all matches: 1 for A, -1 for B, 0 for neither.

    Each order may have been a match of its own. Empty where the archive no longer has the scores.
    """
    leads: dict[int, float] = {}
    for meeting in played:
        for first, (a, b) in zip(meeting.shown_first, meeting.scores, strict=False):
            leads[first] = leads.get(first, 0.0) + a - b
    return {(lead > _LEVEL) - (lead < -_LEVEL) for lead in leads.values()}


def _surprise(why: PairExplanation, lead: float) -> str:
    """Return a clause where whoever stands above lost the match: the other matches put it there."""
    if why.above is None or abs(lead) < _LEVEL or (lead > 0) == (why.above == "a"):
        return ""
    return "; the matches with others turn it round"


def parting_sentence(why: PairExplanation) -> str:
    """Return where the two paths part."""
    parting = why.first_parting
    if parting is None:
        return "both paths take the same tool calls"
    if parting.before is None:
        return "the paths part at the first tool call"
    return f"the paths part at tool call {parting.call}, after {beginning(parting.before.tool, 80)} with the same input"


def call_words(call: ToolCall | None) -> str:
    """Return what a side did where the paths part."""
    return "no further tool call" if call is None else f"step {call.step}, {call.tool}: {call.input or 'no input'}"


def meeting_sentence(why: PairExplanation) -> str:
    """Return what makes the two meet; "" where they have met."""
    if why.unable:
        return f"nothing makes them meet: {why.unable}"
    if why.meet is None:
        return ""
    price = f"{counted(why.meet.calls, 'judge call')} make{'s' if why.meet.calls == 1 else ''} them meet"
    if not why.meet.calls:
        price = "the verdicts on them are there, and no judge call makes them meet"
    return price
