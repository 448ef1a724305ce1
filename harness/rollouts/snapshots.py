"""State outside of the record, such as a database: the agent's file keeps it (`snapshot`) and puts it back (`restore`).

It is kept before each model call but the first, so that a branch from a call finds what the call's tools found. A text
of the archive holds it: `{"json": …}`, or `{"bytes": …}` in base64.
"""

import base64
import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import anyio

from harness.archive.store import Store
from harness.archive.typed_records import checked
from harness.rollouts.agent_code import ends_rollout, in_words
from harness.rollouts.lifecycle import call_user_code
from harness.rollouts.loading import LoadedAgent
from harness.rollouts.recorder import CannotBranch, Recorder


@dataclass
class StateOutside:
    """Keeps the state outside of one rollout, and puts back that of the rollout that it is a branch of."""

    loaded: LoadedAgent
    recorder: Recorder
    store: Store
    context: Callable[[], Any]
    due: str | None = None
    """What `restore` is to put back before the branch goes on by itself."""
    newest: str | None = None
    """Blob with what was kept last."""
    error: str | None = None
    """Why nothing was kept before some call."""
    _one_by_one: anyio.Lock = field(default_factory=anyio.Lock)

    async def before_call(self, *, is_live: bool) -> None:
        """Put back what is due; keep what there is before a call that is bought. Raises CannotBranch."""
        async with self._one_by_one if self.due else nullcontext():
            if self.recorder.fatal:
                raise self.recorder.fatal
            if self.due is not None:
                await self._restore(self.due)
                self.due = None
        done = sum(call.response is not None for call in self.recorder.calls)
        if is_live and done and self.loaded.snapshot:
            self.newest = await self._snapshot(done)

    async def _restore(self, kept: str) -> None:
        try:
            await call_user_code(self.loaded.restore, self.context(), unpack_state(kept))
        except BaseException as exc:
            if not ends_rollout(exc):
                raise
            self.recorder.fatal = CannotBranch(f"restore raised {in_words(exc)}")
            raise self.recorder.fatal from exc

    async def _snapshot(self, done: int) -> str | None:
        try:
            state = await call_user_code(self.loaded.snapshot, self.context(), done)
            return self.store.put_blob(_packed(state, self.store.redact), as_is=True)
        except BaseException as exc:  # the user's code may raise anything
            if not ends_rollout(exc):
                raise
            self.error = self.error or f"snapshot(context, {done}) raised {in_words(exc)}"
            return None


def _packed(state: Any, redact: Callable[[str], str]) -> str:
    """Return a state as a text. Raises TypeError for what is no state, ValueError for what must not be kept."""
    if isinstance(state, bytes):
        bare, text = state.decode("latin-1"), json.dumps({"bytes": base64.b64encode(state).decode()})
    else:
        try:
            bare = text = json.dumps({"json": state}, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError) as exc:
            raise TypeError(f"it gave neither JSON nor bytes: {exc}") from None
    if redact(bare) != bare:
        raise ValueError("it holds a key, or what is redacted")
    return text


def unpack_state(text: str, where: object = "a snapshot") -> Any:
    """Return the state that a text of the archive holds. Raises ArchiveDamaged naming `where` for any other text."""

    def read(text: str) -> Any:
        match json.loads(text):
            case {"json": state}:
                return state
            case {"bytes": str(data)}:
                return base64.b64decode(data, validate=True)
            case _:
                raise ValueError("no state is in it")

    return checked(text, read, where)
