"""The sandboxes of a rollout: a workspace of its own for each SandboxAgent that runs in it, gone at its end."""

import asyncio
import copy
import io
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, wraps
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import anyio
from agents import Agent, RunConfig
from agents.run_config import SandboxRunConfig
from agents.sandbox import LocalSnapshotSpec, Manifest, SandboxAgent
from agents.sandbox.capabilities import Memory
from agents.sandbox.session import BaseSandboxClient, SandboxSession, SandboxSessionState

from harness.archive.store import Store
from harness.core.errors import UsageError, on_a_line
from harness.core.records import Failure, Step
from harness.core.workspace_files import ChangedFile, FileChange, FileState, changes
from harness.rollouts import sandbox_watcher
from harness.rollouts.graph import in_sight
from harness.rollouts.lifecycle import WrappedMethod, guard_methods, set_within
from harness.rollouts.states import PLACE, SANDBOXES, at_usual_place
from harness.rollouts.workspace_scan import PackedFiles, WorkspaceTooLarge, pack_changes, restore, scan_folder, scan_tar

_LOCAL = "unix_local"
_USUAL_ROOT: str = Manifest.model_fields["root"].default
_CLOSING_S = 30.0


def sandbox_agents(agent: Any) -> list[SandboxAgent[Any]]:
    """Return the agents in sight that run in a sandbox."""
    agents = in_sight(cast("Agent[Any]", agent)) if isinstance(agent, Agent) else []
    return [each for each in agents if isinstance(each, SandboxAgent)]


def unguarded(agent: Agent[Any]) -> dict[str, Any]:
    """Return in what a copy of an agent differs, so that the SDK lets it run beside others of the same object."""
    if not isinstance(agent, SandboxAgent):
        return {}
    # the SDK asks a model for memories at a workspace's end, and they end with it: none are made
    kept = [each for each in agent.capabilities if not (isinstance(each, Memory) and each.read is None)]
    without = [each.model_copy(update={"generate": None}) if isinstance(each, Memory) else each for each in kept]
    return {"_sandbox_concurrency_guard": None, "capabilities": without}


class _NoGuard:
    """Stands in the place of the SDK's guard, and counts no run."""

    lock = nullcontext()
    active_runs = property(lambda _: 0, lambda _, __: None)


def go_on_beside_others(agent: Any) -> None:
    """Let runs that go on from a RunState, of which the agents are the app's own objects, go on in several rollouts."""
    for each in sandbox_agents(agent):
        each._sandbox_concurrency_guard = _NoGuard()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]


def _local_client() -> BaseSandboxClient[Any]:
    """Return the client that needs nothing but this machine. Raises UsageError where there is none."""
    try:
        from agents.sandbox.sandboxes.unix_local import UnixLocalSandboxClient  # noqa: PLC0415 - not on Windows
    except ImportError as exc:
        raise UsageError(f"a SandboxAgent needs a client here: give run_config a `sandbox` with one ({exc})") from exc
    return UnixLocalSandboxClient()


@dataclass
class _Workspace:
    """One workspace of a rollout: its session, its client, and its files when it began and when it ended."""

    session: SandboxSession
    client: BaseSandboxClient[Any]
    is_open: bool = True
    before: dict[str, FileState] | None = None
    changed: Sequence[FileChange] = ()
    last: PackedFiles | None = None
    """What there was of one that has ended."""

    @property
    def root(self) -> Path:
        return Path(self.session.state.manifest.root)

    @property
    def is_local(self) -> bool:
        return self.client.backend_id == _LOCAL

    @property
    def skipped(self) -> set[str]:
        return {path.as_posix() for path in self.session.state.manifest.ephemeral_persistence_paths()}

    async def files(self) -> dict[str, FileState]:
        """Return the files as they are now. Raises WorkspaceTooLarge."""
        if self.is_local:
            return await asyncio.to_thread(scan_folder, self.root, self.skipped, self.before)
        file: Any = await self.session.persist_workspace()
        return await asyncio.to_thread(scan_tar, file, self.skipped, self.before)

    async def packed(self) -> PackedFiles:
        """Return what the files are now. Raises ValueError where that cannot be kept, WorkspaceTooLarge."""
        if self.last:
            return self.last
        if not self.is_local or self.before is None:
            raise ValueError("it is not of this machine")
        if [*sandbox_watcher.processes_in(str(self.root))]:
            raise ValueError("a process ran on in it")
        return await asyncio.to_thread(pack_changes, self.root, self.skipped, self.before)

    async def put_back(self, packed: PackedFiles) -> None:
        """Let a workspace that has just begun hold what another did."""
        gone = [ChangedFile(path=path, change="removed") for path in packed.gone]
        await asyncio.to_thread(restore, self.root, gone, str)
        await self.session.hydrate_workspace(io.BytesIO(packed.tar))


@dataclass
class Workspaces:
    """The workspaces of one rollout, or of its replay."""

    recorded: Sequence[ChangedFile] | None = None
    """What the rollout has left, which its replay puts back. With it the local client stands in for the app's."""
    get: Callable[[str], str] = str
    """Finds a text of the archive."""
    failure: Failure | None = None
    """Why the files cannot be kept."""
    temporary: list[str] = field(default_factory=list[str])
    """The temporary folders of the sandboxes, such as those granted to them, which an app may make for each rollout."""
    begin_with: Sequence[PackedFiles] = ()
    """Of a branch: how each of its workspaces begins, as `packed` of its rollout gave it."""
    _made: dict[UUID, _Workspace] = field(default_factory=dict[UUID, _Workspace])

    def __bool__(self) -> bool:
        """Tell whether there are any yet."""
        return bool(self._made)

    async def packed(self) -> list[PackedFiles]:
        """Return what each workspace holds now, in order. Raises ValueError with why not, WorkspaceTooLarge."""
        if sum(each.is_open for each in self._made.values()) > 1:
            raise ValueError("two were open at once")
        return [await each.packed() for each in self._made.values()]

    def given_to(self, run_config: RunConfig) -> RunConfig:
        """Return a run's configuration with sandboxes of the rollout's own. Raises UsageError for what is shared."""
        run_config = copy.copy(run_config)
        run_config.sandbox = self._own(run_config.sandbox or SandboxRunConfig())
        return run_config

    def _own(self, config: SandboxRunConfig) -> SandboxRunConfig:
        if isinstance(config.client, _RolloutClient):
            return config
        for name in ("session", "session_state"):
            given: Any = getattr(config, name)
            if given is not None and getattr(getattr(given, "state", given), "session_id", None) not in self._made:
                raise UsageError(
                    f"run_config has a sandbox with a {name}, which all rollouts would share: make it inside of the "
                    "app's own function, or leave it out and give the sandbox's client and manifest; each rollout "
                    "then has a workspace of its own"
                )
        if config.session is not None:
            return config
        given = config.client if self.recorded is None else None
        client = _RolloutClient(given or _local_client(), self)
        return replace(config, client=client, options=config.options if given else None)

    def add(self, session: SandboxSession, client: BaseSandboxClient[Any]) -> SandboxSession:
        """Note a session that begins, or goes on from where an interrupted run left it."""
        start, before = session.start, self._made.get(session.state.session_id)
        if before and before.session is session:
            return session
        if before is None:
            manifest, temporary = session.state.manifest, Path(tempfile.gettempdir())
            folders = [manifest.root, *(grant.path for grant in manifest.extra_path_grants)]
            self.temporary += [f for f in folders if Path(f).is_relative_to(temporary) and not PLACE.match(f)]
        workspace = _Workspace(session, client, before=before and before.before)
        self._made[session.state.session_id] = workspace

        async def started() -> None:
            await start()
            spec = LocalSnapshotSpec(base_path=self._snapshots)  # an app's own is read, and never written
            session.state.snapshot = spec.build(session.state.session_id.hex)
            if workspace.before is None:
                await self._begin(workspace)

        setattr(session, "start", started)  # noqa: B010 - the SDK has no hook for it
        session.register_pre_stop_hook(partial(self._capture, workspace))
        return session

    async def _begin(self, workspace: _Workspace) -> None:
        try:
            workspace.before = await workspace.files()
        except Exception as exc:  # noqa: BLE001 - the client may be anybody's
            self._note(exc)
        number = [*self._made.values()].index(workspace)
        files = [file for file in self.recorded or () if file.workspace == number]
        if workspace.is_local:
            await asyncio.to_thread(restore, workspace.root, files, self.get)
        put = {file.path for file in files}
        for packed in self.begin_with[number : number + 1]:
            await workspace.put_back(packed)
            put |= packed.names
        if workspace.before:  # within a tick of the clock a file has the times of the one in whose place it comes
            of_others = {path: replace(state, stamp=()) for path, state in workspace.before.items() if path in put}
            workspace.before |= of_others

    async def _capture(self, workspace: _Workspace) -> None:
        """Take what became of the files, once nothing works on them any more."""
        if workspace.before is None:
            return
        with anyio.CancelScope(shield=True):
            try:
                await workspace.session.pty_terminate_all()
                await self._kill(workspace)
                with suppress(Exception):  # no call that comes after has a snapshot then
                    workspace.last = await workspace.packed()
                workspace.changed = [*changes(workspace.before, await workspace.files())]
            except Exception as exc:  # noqa: BLE001 - as above
                self._note(exc)

    def _note(self, exc: Exception) -> None:
        name, elsewhere = type(exc).__name__, "what is no part of the answer goes to a folder of its own (mktemp -d)"
        if isinstance(exc, WorkspaceTooLarge):
            self.failure = Failure(kind="output", type=name, message=f"{exc}; {elsewhere}")
        else:
            self.failure = Failure(kind="internal", type=name, message=f"its files cannot be read: {exc}")

    async def _kill(self, workspace: _Workspace) -> None:
        if workspace.is_local:
            await asyncio.to_thread(sandbox_watcher.kill_in, str(workspace.root))

    async def end(self, session: SandboxSession) -> None:
        """End what runs in a session, and remove its workspace."""
        workspace = self._made.get(session.state.session_id)
        if workspace and workspace.is_open:
            with anyio.CancelScope(shield=True):
                await self._kill(workspace)
                await workspace.client.delete(session)
            workspace.is_open = False

    async def close(self) -> None:
        """End what the SDK did not, as where a rollout was cancelled: within a while, whatever a session does."""
        with anyio.move_on_after(_CLOSING_S, shield=True):
            for workspace in self._made.values():
                if workspace.is_open:
                    with suppress(Exception):  # its processes are killed, and its folder removed, all the same
                        await workspace.session.run_pre_stop_hooks()
                        await workspace.session.shutdown()
                    with suppress(Exception):  # an app may have ended one that it made
                        await self.end(workspace.session)
            if "_snapshots" in vars(self):
                await asyncio.to_thread(shutil.rmtree, self._snapshots, ignore_errors=True)

    def steps(self, steps: Sequence[Step]) -> tuple[Step, ...]:
        """Return steps as they are in any workspace: then equal rollouts are equal for the judge."""
        if not self._made:
            return tuple(steps)

        def usual(step: Step) -> Step:
            texts = {"tool_input": step.tool_input, "tool_output": step.tool_output}
            told = {name: text and at_usual_place(text) for name, text in texts.items()}
            return step.model_copy(update=told | {"inner": self.steps(step.inner)})

        return tuple(map(usual, steps))

    def records(self, store: Store) -> tuple[ChangedFile, ...]:
        """Keep what became of the files, and return the records."""
        as_is, made = partial(store.put_blob, as_is=True), enumerate(self._made.values())
        return tuple(change.record(at, store.put_blob, as_is) for at, each in made for change in each.changed)

    @cached_property
    def _snapshots(self) -> Path:
        """Where interrupted runs, which go on as a RunState, leave their files."""
        return Path(tempfile.mkdtemp(dir=_folder()))


class _RolloutClient(BaseSandboxClient[Any]):
    """Makes the sessions of one rollout by a client that all rollouts may share."""

    def __init__(self, inner: BaseSandboxClient[Any], workspaces: Workspaces) -> None:
        self._inner, self._workspaces = inner, workspaces
        self.backend_id, self.supports_default_options = inner.backend_id, inner.supports_default_options

    def __str__(self) -> str:
        return type(self._inner).__name__

    async def create(self, *, snapshot: Any = None, manifest: Manifest | None = None, options: Any) -> SandboxSession:
        session = await self._inner.create(snapshot=snapshot, manifest=manifest, options=options)
        return self._workspaces.add(session, self._inner)

    async def delete(self, session: SandboxSession) -> SandboxSession:
        await self._workspaces.end(session)
        return session

    async def resume(self, state: SandboxSessionState) -> SandboxSession:
        return self._workspaces.add(await self._inner.resume(state), self._inner)

    def deserialize_session_state(self, payload: dict[str, object]) -> SandboxSessionState:
        return self._inner.deserialize_session_state(payload)


_within: ContextVar[Workspaces | None] = ContextVar("harness_workspaces", default=None)


@contextmanager
def sandboxes_in(workspaces: Workspaces) -> Generator[None]:
    """In this task and those that it starts, let each sandbox be one of `workspaces`, also one that an app makes."""
    with set_within(_within, workspaces), _CLIENTS_GUARD.in_use():
        yield


def _noted(original: Callable[..., SandboxSession]) -> Callable[..., SandboxSession]:
    @wraps(original)
    def wrap_session(self: BaseSandboxClient[Any], *args: Any, **kwargs: Any) -> SandboxSession:
        session, workspaces = original(self, *args, **kwargs), _within.get()
        return session if workspaces is None else workspaces.add(session, self)

    return wrap_session


def _placed(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    async def create(self: BaseSandboxClient[Any], *, manifest: Manifest | None = None, **given: Any) -> SandboxSession:
        if _within.get() is None or self.backend_id != _LOCAL:
            return await original(self, manifest=manifest, **given)
        manifest = manifest or Manifest()
        if manifest.root != _USUAL_ROOT:
            raise UsageError(
                f"the manifest's root is {on_a_line(manifest.root)}, a folder that all rollouts would share: leave "
                "`root` out, and each rollout gets a folder of its own"
            )
        root = _folder() / secrets.token_hex(4)
        root.mkdir(mode=0o700)
        session = await original(self, manifest=manifest.model_copy(update={"root": str(root)}, deep=True), **given)
        setattr(session.state, "workspace_root_owned", True)  # noqa: B010 - the client removes what it owns
        return session

    return create


def _captured_first(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    async def delete(self: BaseSandboxClient[Any], session: SandboxSession) -> SandboxSession:
        if _within.get() is not None:
            await session.run_pre_stop_hooks()  # once: an app need not have closed what it removes
        return await original(self, session)

    return delete


def _wrapped_methods() -> list[WrappedMethod]:
    methods: list[WrappedMethod] = [(BaseSandboxClient, "_wrap_session", _noted)]
    with suppress(UsageError):
        local = type(_local_client())
        methods += [(local, "create", _placed), (local, "delete", _captured_first)]
    return methods


_CLIENTS_GUARD = guard_methods(_wrapped_methods)


_made: dict[int, Path] = {}
"""The folder of workspaces of this process, by the process's number: a forked process makes its own."""


def _folder() -> Path:
    """Return this process's folder of workspaces. A watcher removes it, and ends what runs there, after the process."""
    folder = _made.get(os.getpid())
    if folder is None or not folder.is_dir():
        folder = _made[os.getpid()] = Path(os.path.realpath(tempfile.mkdtemp(prefix=SANDBOXES)))
        watched, _ = os.pipe()  # the other end stays open for as long as this process lives
        command = [sys.executable, "-I", "-S", sandbox_watcher.__file__, str(folder)]
        nowhere: Iterable[Any] = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
        os.posix_spawn(
            sys.executable, command, {}, file_actions=[(os.POSIX_SPAWN_DUP2, watched, 0), *nowhere], setsid=True
        )
        os.close(watched)
    return folder
