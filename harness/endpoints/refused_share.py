"""Whether so many calls are refused that they come too fast, or some at random, whatever their pace."""

from collections import deque

_CALLS = 50
"""The latest calls, which count. Those without a reply yet count as let in: a refusal comes at once."""
_AT_LEAST = 4.0
_PART = 0.18
"""The pace is too fast where `_AT_LEAST` and this part of the latest calls are refused: 5 of 5, 9 of 24, 13 of 50.
Where 6 % are refused at random, 13 of 50 are hardly ever."""


class RefusedShare:
    """What became of the latest calls."""

    def __init__(self) -> None:
        """Begin with no call."""
        self._sent = 0
        self._refused: deque[int] = deque(maxlen=_CALLS)
        """How many calls had been sent at each of the latest refusals."""

    def sent(self) -> None:
        """Note a call."""
        self._sent += 1

    def refused(self) -> bool:
        """Note that a call was refused; return whether the calls come too fast."""
        self._refused.append(self._sent)
        lately = sum(sent > self._sent - _CALLS for sent in self._refused)
        return lately >= _AT_LEAST + _PART * min(self._sent, _CALLS)
