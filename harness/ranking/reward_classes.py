"""Verifiable rewards first: a group falls into classes of equal reward, and a judge is needed only inside them."""

from collections.abc import Mapping, Sequence

from harness.core.rankings import Ranked
from harness.ranking.conclusions import Conclusion
from harness.ranking.rewards import place


def classes_of(verified: Mapping[int, float | None]) -> list[list[int]]:
    """Return entrants in classes of equal reward, best first; all in one class where any reward is unknown.

    Ranking by the reward alone gives no signal inside a class, and none at all where the whole group is one class:
    with binary rewards, the common case (arXiv 2606.09380).
    """
    if None in verified.values():
        return [list(verified)]
    levels = sorted({v for v in verified.values() if v is not None}, reverse=True)
    return [[e for e, v in verified.items() if v == level] for level in levels]


def stack_classes(found: Sequence[Conclusion], failed_last: Sequence[int]) -> Conclusion:
    """Put classes, best first, one above the other, and `failed_last` below: ranks inside a class stay as they are.

    Without ranks in any class there are none at all. The signal is `ok`: two classes are told apart for certain. The
    fit is that of the class with the most calls; only members of the best class can be best. Rewards are from ranks.
    """
    keys = {e: (-level, -r.rank) for level, c in enumerate(found) for e, r in c.ranked.items() if r.rank is not None}
    entrants = [(level, e, r) for level, c in enumerate(found) for e, r in c.ranked.items()]
    places = place(keys, failed_last) if len(keys) == len(entrants) else {}

    def told(entrant: int) -> dict[str, float | None]:
        at = places.get(entrant)
        return {name: getattr(at, name, None) for name in ("rank", "reward", "advantage")}

    ranked = {
        e: r.model_copy(update=told(e) | {"p_above_mean": None} | ({"p_best": 0.0} if level else {}))
        for level, e, r in entrants
    }
    return Conclusion(
        ranked=ranked | {e: Ranked(index=e).model_copy(update=told(e)) for e in failed_last},
        signal="ok",
        fit=max((c.fit for c in found if c.fit), key=lambda fit: fit.calls, default=None),
        note=next((c.note for c in found if c.note), None),
    )
