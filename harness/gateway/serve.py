"""A run of the gateway: its upstream, its folder and its socket, from the first request to the interrupt."""

import secrets
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from pathlib import Path

import anyio
import httpx2
import uvicorn
from pydantic_core import to_json as json_bytes

from harness.archive.reader import RunReader
from harness.archive.run_info import RunInfo, new_run_id
from harness.archive.store import MemoryStore, RunStore
from harness.core.errors import UsageError, call, option, quoted
from harness.core.progress import StopSign
from harness.core.records import GATEWAY, Query, to_json
from harness.core.settings import Api, Settings, as_written
from harness.core.unicode import without_credentials
from harness.endpoints.address import Endpoint, agent_servers
from harness.endpoints.client import openai_client
from harness.endpoints.costs import price_list
from harness.endpoints.credentials import Credentials
from harness.endpoints.reply_tokens import TokenRequests
from harness.gateway.app import Gateway
from harness.gateway.calls import PassedCall, UpstreamServer
from harness.gateway.rollouts import RolloutKeeper
from harness.gateway.sessions import Closing, Sessions
from harness.pipeline.judge_inputs import load_named_rubric, rubric_for_run, whole_text
from harness.pipeline.process_server import stand_in_reply
from harness.pipeline.resolve import make_redactor, resolve_agent
from harness.pipeline.run_environment import RunEnvironment, package_versions
from harness.pipeline.trust import attested
from harness.rollouts.loading import LoadedAgent
from harness.tournament.ranker import AnyRubric

_KEPT_ALIVE_S = 75
"""Longer than clients keep a connection that they do not use: who closes it first must not be the gateway."""


@dataclass(frozen=True)
class Upstream:
    """Where calls go, and what the run is to be judged by."""

    endpoint: Endpoint
    settings: Settings
    rubric: AnyRubric
    loaded: LoadedAgent | None


async def resolve_upstream(loaded: LoadedAgent | None, settings: Settings, run_env: RunEnvironment) -> Upstream:
    """Return the server of an agent's models, or that of the settings' address. Raises UsageError without one."""
    credentials = Credentials.naming(run_env.environ, settings.base_url)
    if loaded:
        settings, rubric = rubric_for_run(loaded, settings)
        spec = await resolve_agent(loaded, settings, credentials, with_tools=False)
        servers: Sequence[Endpoint] = spec.servers or ((spec.endpoint,) if spec.endpoint else ())
    else:
        rubric, servers = load_named_rubric(settings), agent_servers(settings, credentials)
    if len(servers) != 1:
        several = "several servers are named" if servers else "no server is named that calls could go to"
        raise UsageError(f"{several}: name the one with {option('upstream', 'URL')}")
    return Upstream(servers[0], settings, rubric, loaded)


def listen(host: str, port: int, token: str | None) -> socket.socket:
    """Return a socket that listens. Raises UsageError where none is to be had, or others could call without token."""
    try:
        is_local = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        is_local = False
    if token is not None and not (token.isascii() and token.isprintable() and token.strip() == token and token):
        raise UsageError(f"{option('token', '...')} holds what no HTTP header can carry: give letters and digits")
    if not is_local and token is None:
        raise UsageError(
            f"{option('host', host)} lets other machines spend the upstream's key: give {option('token', 'SECRET')}, "
            f"which each request then has to bear, or leave {option('host')} out (127.0.0.1)"
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, UnicodeError, OverflowError) as exc:
        raise UsageError(
            f"cannot listen on {quoted(host)}, port {port} ({exc}): choose another with {option('port', 0)}, which "
            "takes a free one"
        ) from None
    # asyncio sets it only for sockets made with IPPROTO_TCP. Without it the body of a reply waits for the client to
    # acknowledge the head, which takes it 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


@asynccontextmanager
async def open_gateway(
    upstream: Upstream, run_env: RunEnvironment, token: str | None = None, folder: Path | None = None
) -> AsyncGenerator[Gateway]:
    """Open a gateway into a new run, or into the gateway's run in `folder`; at the end keep the sessions that are open.

    A new run in which there was no session is removed.

    Raises UsageError for a folder that holds another run, ArchiveLocked, ArchiveDamaged, CannotWrite.
    """
    settings, endpoint = upstream.settings, upstream.endpoint
    redact = make_redactor(upstream.loaded, settings, run_env.environ)
    if folder is None:
        info = _new_run(upstream, run_env, whole_text(upstream.rubric.source, redact))
        opening = RunStore.create(settings.runs_dir, info, redact=redact)
    else:
        opening = RunStore(folder, run_env.clock(), versions=package_versions(), redact=redact)
    with opening as store, attested(store, run_env, upstream.loaded) if folder is None else nullcontext():
        sessions, next_index = Sessions(), dict[str, int]()
        if folder:
            sessions.closed, next_index = _kept_before(store.reader)
        run_env.progress.opened(store.folder)
        pricing = partial(price_list(settings).cost, base_url=endpoint.base_url)
        keeper = RolloutKeeper(store, pricing, run_env.clock, run_env.progress.note, next_index)
        client = openai_client(endpoint, timeout_s=settings.request_timeout)
        tokens = TokenRequests(settings.tokens, run_env.progress.note)
        server = UpstreamServer(endpoint, client, tokens, run_env.clock)
        _warm_up(server, keeper)
        try:
            yield Gateway(server, keeper, token, sessions)
        finally:
            with anyio.CancelScope(shield=True):
                await client.close()
                for session in [*sessions.open.values()]:
                    await keeper.keep(session, None)
            if folder is None and store.is_empty:  # nobody called: no run that would be the newest one
                store.discard()


def _warm_up(server: UpstreamServer, keeper: RolloutKeeper) -> None:
    """Make of made-up calls what the first ones make anew, such as types: all clients would wait a second for it."""
    apis: Sequence[Api] = "chat", "responses"
    request = httpx2.Request("POST", "http://upstream.invalid")
    for api in apis:
        session, closing = Sessions().begin_call("stand-in", server.clock()), Closing(answer="", query="Why?")
        for is_done in (False, True):
            asked = {"model": "m", "messages" if api == "chat" else "input": [{"role": "user", "content": "Why?"}]}
            call = PassedCall(server, session, api, b"", asked)
            call.read(json_bytes(stand_in_reply(api, is_done=is_done)), request)
            call.end()
        to_json(keeper.make(session, Query(id="q", text="Why?"), 0, closing, MemoryStore()))


async def serve(gateway: Gateway, listening: socket.socket, run_env: RunEnvironment) -> None:
    """Answer requests until the user asks to stop; the calls under way then may end."""
    config = uvicorn.Config(
        gateway.app(),
        log_config=None,
        log_level="critical",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEPT_ALIVE_S,
    )
    await _Server(config, run_env.stop).serve([listening])


class _Server(uvicorn.Server):
    """Leaves signals to the command, and looks at its stop sign."""

    def __init__(self, config: uvicorn.Config, stop: StopSign) -> None:
        self._stop = stop
        super().__init__(config)

    @property
    def should_exit(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._stop.asked

    @should_exit.setter
    def should_exit(self, value: bool) -> None:
        self._stop.asked |= value

    def capture_signals(self) -> AbstractContextManager[None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return nullcontext()


def _new_run(upstream: Upstream, run_env: RunEnvironment, rubric_text: str | None) -> RunInfo:
    at, endpoint, loaded = run_env.clock(), upstream.endpoint, upstream.loaded
    name = loaded.name if loaded else GATEWAY
    return RunInfo(
        schema_version=1,
        id=new_run_id(name, at, secrets.token_hex(8)),
        created_at=at,
        agent=name,
        settings=as_written(upstream.settings),
        judge={},
        offline=False,
        endpoint={"base_url": without_credentials(endpoint.base_url), "api": endpoint.api},
        agent_word=loaded.word if loaded else None,
        rubric=upstream.rubric.label,
        rendering=upstream.rubric.rendering,
        rubric_text=rubric_text,
        versions=package_versions(),
    )


def _kept_before(reader: RunReader) -> tuple[set[str], dict[str, int]]:
    """Return the sessions that a run holds, and by query the next rollout's index. Raises UsageError: another run."""
    closed, next_index = set[str](), dict[str, int]()
    if reader.info.judge or not reader.info.endpoint:
        raise UsageError(f"run {reader.info.id} was not made by the gateway: without it {call('gateway')} begins one")
    for query in reader.queries():
        rollouts = reader.group(query).rollouts
        closed |= {r.origin_id for r in rollouts if r.origin_id}
        next_index[query.id] = max((r.index for r in rollouts), default=-1) + 1
    return closed, next_index
