"""The gateway's command."""

import asyncio
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio

from harness.archive.run_info import find_run
from harness.cli.archived_run import say_next
from harness.cli.output import Caller, say
from harness.cli.progress_bars import stdout_for_results, until_stopped
from harness.core.errors import Interrupted, UsageError, calling, counted, option
from harness.core.progress import Silent
from harness.core.settings_sources import load, merge_sources
from harness.pipeline.run_environment import RunEnvironment
from harness.rollouts.loading import load_agent


def serve_sessions(
    caller: Caller,
    run: str | None,
    agent: str | None,
    upstream: str | None,
    host: str,
    port: int,
    token: str | None,
    flags: Mapping[str, Any],
) -> None:
    """Record the sessions of other programs until the user ends it. Raises UsageError."""
    try:
        from harness.gateway.serve import listen, open_gateway, resolve_upstream, serve
    except ModuleNotFoundError as exc:
        if exc.name not in {"starlette", "uvicorn"}:
            raise
        raise UsageError(f"the gateway needs {exc.name}: pip install 'arena-harness[gateway]'") from None
    named = {"base_url": (upstream,)} if upstream else {}
    settings = load({"tokens": "auto"} | merge_sources({**flags, **named}, caller.environ, caller.config))
    folder = find_run(run, settings.runs_dir) if run else None
    if agent is None and upstream is None:
        raise UsageError(f"name the server with {option('upstream', 'URL')}, or an agent with {option('agent')}")
    with stdout_for_results(), calling({"base_url": "upstream"} if upstream else {}):
        loaded = load_agent(agent, Path.cwd()) if agent else None
        found = anyio.run(resolve_upstream, loaded, settings, RunEnvironment(caller.environ))

    run_env = RunEnvironment(caller.environ, progress=_Notes(quiet=caller.quiet))

    async def work() -> tuple[Path, int, int]:
        with closing(listen(host, port, token)) as listening:
            async with open_gateway(found, run_env, token, folder) as gateway:
                before, where = len(gateway.sessions.closed), f"[{host}]" if ":" in host else host
                say(f"http://{where}:{listening.getsockname()[1]}/s/SESSION/v1")
                await serve(gateway, listening, run_env)
            sessions = gateway.sessions
            return gateway.keeper.store.folder, len(sessions.closed) - before, len(sessions.open)

    try:
        kept, answered, open_ = anyio.run(until_stopped, work, run_env.stop, settings.grace)
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise Interrupted("interrupted: calls under way were cut off; all sessions are kept") from None
    if not kept.is_dir():
        say("no session was begun: no run is kept")
        return
    unanswered = f", and {counted(open_, 'session')} without an answer" if open_ else ""
    say(f"{counted(answered, 'rollout')}{unanswered}: {kept}")
    say_next(kept)


class _Notes(Silent):
    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def opened(self, folder: Path) -> None:
        if not self._quiet:
            say(f"run {folder}", err=True)

    def note(self, text: str) -> None:
        if not self._quiet:
            say(f"note: {text}", err=True)
