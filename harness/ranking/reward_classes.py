"""Verifiable rewards first: a group falls into classes of equal reward, and a judge is needed only inside a class."""

from collections.abc import Sequence

from harness.core.rankings import Ranked
from harness.ranking.conclusions import Conclusion
from harness.ranking.rewards import Placed, place


def stack_classes(classes: Sequence[Conclusion], failed_last: Sequence[int]) -> Conclusion:
    """Put classes, best first, one above the other, and `failed_last` below: the order inside a class stays.

    A class alone stays as it is, and has its failed already.

    If a class has no ranks, the group has none, and no signal; else the signal is `ok`: two classes differ for certain.
    The fit is that of the class with the most calls; only members of the best class can be best, and without ranks and
    their probabilities nobody has one. Rewards are from ranks.
    """
    if len(classes) == 1:
        return classes[0]
    keys = {e: (-level, -r.rank) for level, c in enumerate(classes) for e, r in c.ranked.items() if r.rank is not None}
    whole = len(keys) == sum(len(c.ranked) for c in classes)
    places = place(keys, failed_last) if whole else {}
    told_apart = whole or any(r.p_best is not None for r in classes[0].ranked.values())
    ranked: dict[int, Ranked] = {}
    for level, conclusion in enumerate(classes):
        for entrant, inside in conclusion.ranked.items():
            p_best = inside.p_best if not level else 0.0 if told_apart else None
            changes = _place_fields(places.get(entrant)) | {"p_best": p_best, "p_above_mean": None}
            ranked[entrant] = inside.model_copy(update=changes)
    ranked |= {e: Ranked(index=e).model_copy(update=_place_fields(places.get(e))) for e in failed_last}
    return Conclusion(
        ranked=ranked,
        signal="ok" if whole else "none",
        fit=max((c.fit for c in classes if c.fit), key=lambda fit: fit.calls, default=None),
        note=next((c.note for c in classes if c.note), None),
    )


def _place_fields(placed: Placed | None) -> dict[str, float | None]:
    if placed is None:
        return {"rank": None, "reward": None, "advantage": None}
    return {"rank": placed.rank, "reward": placed.reward, "advantage": placed.advantage}
