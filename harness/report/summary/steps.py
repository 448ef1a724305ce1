"""The steps of a path with the numbers that people see."""

from collections.abc import Iterable, Iterator

from harness.core.records import Step


def numbered_steps(path: Iterable[Step], within: str = "") -> Iterator[tuple[str, Step]]:
    """Yield steps with their numbers: 2, and 2.1 for the first of the steps inside step 2."""
    for number, step in enumerate(path, 1):
        yield f"{within}{number}", step
        yield from numbered_steps(step.inner, f"{within}{number}.")
