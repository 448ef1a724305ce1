"""Chance by numpy, from a seed of one number or several."""

from collections.abc import Sequence

import numpy as np


class Drawn:
    """A sampler that gives the same for the same seed."""

    def __init__(self, *seed: int) -> None:
        """Begin at a seed; its numbers are not negative."""
        self._rng = np.random.default_rng(seed[0] if len(seed) == 1 else seed)

    def sample(self, population: Sequence[int], k: int) -> list[int]:
        """Return k of the population in random order."""
        return [population[i] for i in self._rng.permutation(len(population))[:k].tolist()]

    def coins(self, n: int) -> list[bool]:
        """Return n tosses of a coin."""
        return (self._rng.random(n) < 0.5).tolist()
