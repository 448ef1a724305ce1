"""Which rollouts of a group have equal verifiable rewards. It needs no fit, and so no numpy: pages ask it, too."""

from collections.abc import Mapping


def classes_of(verified: Mapping[int, float | None]) -> list[list[int]]:
    """Return entrants in classes of equal reward, best first; all in one class where any reward is unknown.

    Ranking by the reward alone gives no signal inside a class, and none at all where the whole group is one class:
    with binary rewards, the common case (arXiv 2606.09380).
    """
    if None in verified.values():
        return [list(verified)]
    levels = sorted({v for v in verified.values() if v is not None}, reverse=True)
    return [[e for e, v in verified.items() if v == level] for level in levels]
