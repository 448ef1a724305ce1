"""The server of `--isolate process`: it has the agent loaded, and forks a process for each rollout.

Before the agent is loaded it makes a rollout of a stand-in: what a first rollout makes anew (modules that are imported
late, the types of replies, the prices), each fork then has. A process that had to make it would take ten times the
processor time of its rollout. The stand-in's model is a process that is forked for it and listens on this machine.

It has neither threads nor an event loop, so that a fork is whole. It ends when its socket closes, and all processes of
rollouts with it.
"""

import asyncio
import gc
import json
import mmap
import os
import select
import shutil
import signal
import socket
import struct
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from random import Random
from typing import Any

from agents import Agent, function_tool
from pydantic import SecretStr

from harness.archive.store import MemoryStore
from harness.core.errors import HarnessError, UsageError, option
from harness.core.records import Query, Rollout
from harness.core.settings import Api, Settings
from harness.endpoints.address import Endpoint
from harness.pipeline import process_worker as worker
from harness.pipeline.engines import open_run_context
from harness.pipeline.resolve import AgentSpec
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.workers import MadeRollout, WorkerNote
from harness.rollouts.loading import AgentEnv, from_object
from harness.rollouts.maker import BegunRollout, FirstCall, RolloutsHere

_TIMES = 8
"""Python makes code faster that has run some times; each fork would have to do so for itself."""


def warm_up(spec: AgentSpec, settings: Settings) -> bool:
    """Make a rollout of a stand-in on models such as those of `spec`; return whether it ended well.

    Where it does not, nothing is lost but time.
    """
    api: Api = spec.endpoint.api if spec.endpoint else "chat"
    with suppress(Exception), _model(api) as url:
        here = {"base_url": url, "key": SecretStr("none")}
        endpoint = spec.endpoint or Endpoint(base_url=url, api=api, key=SecretStr("none"))
        endpoint = None if spec.offline else endpoint.model_copy(update=here)

        @function_tool
        async def look_up(word: str) -> str:
            return word

        agent = from_object(Agent(name="stand-in", instructions="Answer.", model="m", tools=[look_up]))
        stand_in = AgentSpec(agent, endpoint, spec.offline, "m")
        asked = replace(settings, approve=(), upload_traces=False, redact=(), timeout=10.0, retries=0)
        tokens = "off" if settings.tokens == "off" else "auto"
        return asyncio.run(_roll_out(stand_in, replace(asked, model=None, vary=None, tokens=tokens)))
    return False


async def _make_once(spec: AgentSpec, settings: Settings) -> None:
    """Make a packaged agent once, which opens its corpus. A user's own may open what processes must not share."""
    if spec.loaded.packaged:
        env = AgentEnv(spec.endpoint.api if spec.endpoint else "chat", spec.offline, settings.corpus, None, Random(0))
        async with spec.loaded.open(env):
            pass


async def _roll_out(spec: AgentSpec, settings: Settings) -> bool:
    async with open_run_context(spec, settings, MemoryStore(), RunEnvironment({})) as run_context:
        done = dict[int, Rollout]()
        query = Query(id="q", text="Why?")
        for _ in range(_TIMES):
            await RolloutsHere(run_context).make(BegunRollout(query, 1, FirstCall(), done, lambda: False, leads=False))
        return done[1].status == "ok" and len(done[1].trajectory.path) > 0


@contextmanager
def _model(api: Api) -> Generator[str]:
    """Give the address of a model that asks for a tool once, then answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        pid = os.fork()
        if pid == 0:
            try:
                _answer(listener, api)
            finally:
                os._exit(0)
        past_proxies = os.environ.get("NO_PROXY")
        os.environ["NO_PROXY"] = "*"
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            del os.environ["NO_PROXY"]
            if past_proxies is not None:
                os.environ["NO_PROXY"] = past_proxies


def _answer(listener: socket.socket, api: Api) -> None:
    while True:
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as asked:
            while asked.readline():
                headers = dict(line.lower().split(b": ", 1) for line in iter(asked.readline, b"\r\n"))
                body = asked.read(int(headers[b"content-length"]))
                is_done = b'"role":"tool"' in body.replace(b" ", b"") or b"function_call_output" in body
                reply = json.dumps(stand_in_reply(api, is_done=is_done)).encode()
                head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(reply)}\r\n\r\n"
                connection.sendall(head.encode() + reply)


def stand_in_reply(api: Api, *, is_done: bool) -> Mapping[str, Any]:
    """Return the body of a model's reply: an answer if it `is_done`, else a call of the tool look_up."""
    asked = {"name": "look_up", "arguments": '{"word": "why"}'}
    if api == "chat":
        calls = [{"id": "call_1", "type": "function", "function": asked}]
        said = {"content": "Done."} if is_done else {"content": None, "tool_calls": calls}
        finish = "stop" if is_done else "tool_calls"
        choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **said}}
        usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
        return {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage}
    content: list[dict[str, Any]] = [{"type": "output_text", "text": "Done.", "annotations": []}]
    message = {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": content}
    call = {"id": "f", "type": "function_call", "call_id": "call_1", "status": "completed", **asked}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    usage = {"input_tokens": 9, "output_tokens": 9, "total_tokens": 18, **details}
    of_all: dict[str, Any] = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "status": "completed"}
    head = {"id": "r", "object": "response", "created_at": 0, "model": "m"}
    return {**head, "output": [message if is_done else call], "usage": usage, **of_all}


REQUEST = struct.Struct("!cQ")
FORK, KILL = b"F", b"K"
"""What the server is asked, with the number of a rollout; the first comes with the rollout's socket."""
ENDED = struct.Struct("!Qi")
"""What the server tells: the rollout's number, and what `waitpid` says of its process."""


def serve_rollouts() -> None:
    """Load the agent, and fork until the socket closes, whose number is the first argument."""
    control = socket.socket(fileno=int(sys.argv[1]))
    os.dup2(2, 1)  # stdout is for results
    unpacker, jobs = worker.Unpacker(), list[worker.ProcessJob]()
    while not jobs:
        if not (data := control.recv(1 << 16)):
            return
        jobs += unpacker.feed(data)
    warm_up(jobs[0].spec, jobs[0].settings)
    try:
        spec = jobs[0].resolved()
        asyncio.run(_make_once(spec, jobs[0].settings))
    except HarnessError as exc:
        control.sendall(worker.packed(MadeRollout.refused(exc)))
        return
    fault, note = _try_limit(jobs[0].settings.memory)
    if fault:
        control.sendall(worker.packed(MadeRollout.refused(UsageError(fault))))
        return
    control.sendall(worker.packed(MadeRollout() if note is None else WorkerNote(note)))
    gc.collect()
    gc.freeze()  # else each look of the collector would copy the pages of all that is loaded
    _Server(control, jobs[0], spec).serve()


_LEAST = 16 * worker.MB
"""A rollout needs so many bytes beside the loaded agent."""
_KEPT, _IGNORED, _TOO_LOW = range(3)


def _try_limit(megabytes: int | None) -> tuple[str | None, str | None]:
    """Return why a limit on memory is too low, and what the user should know of a limit that the system ignores."""
    if megabytes is None:
        return None, None
    pid = os.fork()
    if pid == 0:
        end = _IGNORED
        try:
            worker.limit_memory(megabytes)
            bytes(_LEAST)
            mmap.mmap(-1, megabytes * worker.MB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
        except MemoryError:
            end = _TOO_LOW
        except (OSError, ValueError):  # as it should
            end = _KEPT
        finally:
            os._exit(end)
    end = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    limit = option("memory", megabytes)
    if end == _IGNORED:
        return None, f"{limit}: this system does not limit the memory of a process; rollouts run without a limit"
    return (None if end == _KEPT else f"{limit} is less than the process takes with the agent loaded: give more"), None


class _Server:
    def __init__(self, control: socket.socket, job: worker.ProcessJob, spec: AgentSpec) -> None:
        self._control, self._job, self._spec = control, job, spec
        self._children: dict[int, int] = {}
        """The number of the rollout that a process makes."""

    def serve(self) -> None:
        """Fork when asked to, tell of each process that has ended, and end with the socket."""
        woken, wakes = socket.socketpair()
        for end in (woken, wakes):
            end.setblocking(False)  # noqa: FBT003 - its only parameter
        signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)  # the file descriptor says that a process has ended
        try:
            while True:
                ready, _, _ = select.select([self._control, woken], [], [])
                if woken in ready:
                    woken.recv(1 << 12)
                    self._reap()
                if self._control in ready and not self._answer():
                    return
        finally:
            for pid in self._children:
                worker.end_group(pid)
            shutil.rmtree(self._job.folder, ignore_errors=True)

    def _answer(self) -> bool:
        try:
            request, sockets, _, _ = socket.recv_fds(self._control, REQUEST.size, 1)
        except ConnectionResetError:  # the run has ended, and left unread what it was told
            return False
        if len(request) < REQUEST.size:
            return False
        kind, number = REQUEST.unpack(request)
        if kind == KILL:
            for pid, of_rollout in self._children.items():
                if of_rollout == number:
                    worker.end_group(pid)
            return True
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._control.close()
            worker.be_rollout(self._job, self._spec, number, socket.socket(fileno=sockets[0]), server)
        os.close(sockets[0])
        self._children[pid] = number
        return True

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            number = self._children.pop(pid, None)
            if number is None:  # the agent's file started it, or it removed a folder
                continue
            worker.end_group(pid)  # what it has left running
            folder = self._job.folder / str(number)
            try:
                for each in worker.folders(folder):
                    each.rmdir()
                folder.rmdir()
            except OSError:  # not empty: that may take a while
                if os.fork() == 0:
                    shutil.rmtree(folder, ignore_errors=True)
                    os._exit(0)
            with suppress(OSError):  # the run has ended
                self._control.sendall(ENDED.pack(number, status))
