"""Numbers of things, in the words of a message."""


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """Return a number of things: `1 run`, `2,000 runs`."""
    return f"{number:,} {singular if number == 1 else plural or f'{singular}s'}"
