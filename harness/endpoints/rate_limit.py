"""Rate limits: after a 429 every caller waits, not just the one that got it."""

import anyio
import openai

from harness.endpoints.retries import LONGEST_WAIT_S, retry_after_s

_SHORTEST_PAUSE_S = 0.5


class Pause:
    """The pause that all calls to an endpoint make together."""

    def __init__(self) -> None:
        """Begin without a pause."""
        self._until = 0.0

    def begin(self, error: openai.RateLimitError) -> None:
        """Pause for as long as the server asks, within half a second and a minute; a longer pause stays."""
        seconds = min(retry_after_s(error) or 0.0, LONGEST_WAIT_S)
        self._until = max(self._until, anyio.current_time() + max(_SHORTEST_PAUSE_S, seconds))

    async def wait(self) -> None:
        """Wait for the pause to end."""
        if anyio.current_time() < self._until:  # else even a sleep of no length costs a turn of the loop
            await anyio.sleep_until(self._until)
