"""State outside of the record: that of the rollout's sandboxes, and that which the agent's file keeps and puts back.

It is kept before each model call but the first, so that a branch from a call finds what the call's tools found. A text
of the archive holds it: of the agent's file (`snapshot`, `restore`) `{"json": …}`, or `{"bytes": …}` in base64; of
sandboxes `{"sandboxes": […]}`, of each a tar, compressed, in base64, and the files that are gone.
"""

import base64
import json
import zlib
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import anyio

from harness.archive.store import Store
from harness.archive.typed_records import checked
from harness.rollouts.agent_code import ends_rollout, in_words
from harness.rollouts.lifecycle import call_user_code
from harness.rollouts.loading import LoadedAgent
from harness.rollouts.recorder import CannotBranch, Recorder
from harness.rollouts.sandboxes import Workspaces
from harness.rollouts.workspace_scan import MOST_PACKED, PackedFiles


@dataclass
class StateOutside:
    """Keeps the state outside of one rollout, and puts back that of the rollout that it is a branch of."""

    loaded: LoadedAgent
    recorder: Recorder
    store: Store
    context: Callable[[], Any]
    workspaces: Workspaces
    due: tuple[Any, ...] = ()
    """The state, if any, that `restore` is to put back before the branch goes on by itself."""
    newest: str | None = None
    """Blob with what was kept last."""
    error: str | None = None
    """Why nothing was kept before some call."""
    _last: tuple[bytes, str] = (b"", "")
    """The tar that was kept last, and its text."""
    _one_by_one: anyio.Lock = field(default_factory=anyio.Lock)

    async def before_call(self, *, is_live: bool) -> None:
        """Put back what is due; keep what there is before a call that is bought. Raises CannotBranch."""
        async with self._one_by_one if self.due else nullcontext():
            if self.recorder.fatal:
                raise self.recorder.fatal
            for state in self.due:
                await self._restore(state)
            self.due = ()
        if not (is_live and (self.loaded.snapshot or self.workspaces)):
            return
        done, calls = sum(call.response is not None for call in self.recorder.calls), self.recorder.calls
        if any(call.response is None and call.error is None for call in calls):
            self.newest, self.error = None, self.error or f"another model call was under way beside call {done + 1}"
        elif done:
            self.newest = await self._snapshot(done)

    async def _restore(self, state: Any) -> None:
        try:
            await call_user_code(self.loaded.restore, self.context(), state)
        except BaseException as exc:
            if not ends_rollout(exc):
                raise
            self.recorder.fatal = CannotBranch(f"restore raised {in_words(exc)}")
            raise self.recorder.fatal from exc

    async def _snapshot(self, done: int) -> str | None:
        kept = dict[str, Any]()
        try:
            if self.loaded.snapshot:
                state = await call_user_code(self.loaded.snapshot, self.context(), done)
                kept |= _packed(state, self.store.redact)
        except BaseException as exc:  # the user's code may raise anything
            if not ends_rollout(exc):
                raise
            self.error = self.error or f"snapshot(context, {done}) raised {in_words(exc)}"
            return None
        try:
            if self.workspaces:
                kept["sandboxes"] = [self._compressed(each) for each in await self.workspaces.packed()]
        except Exception as exc:  # noqa: BLE001 - reading the files may fail in many ways
            self.error = self.error or f"no snapshot of its sandbox before model call {done + 1}: {exc}"
        return self.store.put_blob(json.dumps(kept, ensure_ascii=False), as_is=True) if kept else None

    def _compressed(self, packed: PackedFiles) -> tuple[str, tuple[str, ...]]:
        """Return the files of a sandbox as JSON. Raises ValueError for what must not be kept."""
        if self._last[0] != packed.tar:
            _check(packed.tar.decode("latin-1"), self.store.redact)
            self._last = packed.tar, base64.b64encode(zlib.compress(packed.tar, 1)).decode()
        return self._last[1], packed.gone


def _packed(state: Any, redact: Callable[[str], str]) -> dict[str, Any]:
    """Return a state as JSON. Raises TypeError for what is no state, ValueError for what must not be kept."""
    if isinstance(state, bytes):
        _check(state.decode("latin-1"), redact)
        return {"bytes": base64.b64encode(state).decode()}
    try:
        bare = json.dumps(state, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as exc:
        raise TypeError(f"it gave neither JSON nor bytes: {exc}") from None
    _check(bare, redact)
    return {"json": state}


def _check(bare: str, redact: Callable[[str], str]) -> None:
    if redact(bare) != bare:
        raise ValueError("it holds a key, or what is redacted")


class KeptState(NamedTuple):
    """What a text of the archive holds."""

    by_file: tuple[Any, ...] = ()
    """The state that the agent's file kept, if it did."""
    sandboxes: tuple[PackedFiles, ...] = ()


NOTHING_KEPT = KeptState()


def unpack_state(text: str, where: object = "a snapshot") -> KeptState:
    """Return the state that a text of the archive holds. Raises ArchiveDamaged naming `where` for any other text."""

    def read(text: str) -> KeptState:
        held = json.loads(text)
        sandboxes = tuple(PackedFiles(_decompressed(tar), tuple(gone)) for tar, gone in held.get("sandboxes", ()))
        match held:
            case {"json": state}:
                return KeptState((state,), sandboxes)
            case {"bytes": str(data)}:
                return KeptState((base64.b64decode(data, validate=True),), sandboxes)
            case {"sandboxes": _}:
                return KeptState((), sandboxes)
            case _:
                raise ValueError("no state is in it")

    return checked(text, read, where)


def _decompressed(text: str) -> bytes:
    """Return a tar that was packed, and no more of another than one may have. Raises ValueError."""
    try:
        return zlib.decompressobj().decompress(base64.b64decode(text, validate=True), 2 * MOST_PACKED)
    except zlib.error as exc:
        raise ValueError(f"no compressed files: {exc}") from None
