"""The first model call of a run goes alone: what is wrong with key, model or address is then paid for once."""

import anyio

from harness.endpoints.refused_settings import OPENS_AFTER_S


class FirstCall:
    """Lets one rollout go first, until its first reply is in.

    A wrong key, model or address then costs one call, and is one error of the whole run instead of N failed rollouts.
    """

    def __init__(self, alone_s: float = OPENS_AFTER_S) -> None:
        """Nobody has gone yet. The first goes alone for `alone_s`, and OPENS_AFTER_S, at most."""
        self._alone_s = min(alone_s, OPENS_AFTER_S)
        self._opens_at: float | None = None
        self._through = anyio.Event()
        self.answered = False

    async def lead_or_wait(self) -> bool:
        """Return True to the first caller at once, False to the others once a reply is in or the leader has ended.

        The others do not wait for long, all of them together: a leader that hangs must not hold them up.
        """
        if self._opens_at is None:
            self._opens_at = anyio.current_time() + self._alone_s
            return True
        with anyio.move_on_after(self._opens_at - anyio.current_time()):
            await self._through.wait()
        return False

    def reply(self) -> None:
        """A reply came in: all may go."""
        self.answered = True
        self._through.set()

    def over(self) -> None:
        """The leader has ended; all may go."""
        self._through.set()
