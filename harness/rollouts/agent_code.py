"""What an agent's own code raises: that it ends its own rollout alone, where it was raised, and whether it is to blame.

asyncio lets SystemExit and KeyboardInterrupt out of any task, past every `except` around it, and they end the loop. So
the tasks that a rollout begins raise something else in their place.
"""

import asyncio
import math
import sysconfig
import traceback
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Literal, cast

import agents
import anyio
from agents.exceptions import _is_tool_local_cancellation  # pyright: ignore[reportPrivateUsage] - only the SDK knows
from agents.lifecycle import RunHooksBase
from agents.tracing import FunctionSpanData, get_current_span
from agents.util._coro import noop_coroutine

from harness.core.errors import UsageError

# As frames name their files: not resolved, for an environment may be reached by a link.
_HARNESS, _SDK = str(Path(__file__).parents[1]), str(Path(agents.__file__).parent)
_INSTALLED = (sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
_NOT_THE_USERS = ("<", *_INSTALLED, _HARNESS)


class AgentRaised(Exception):
    """Stands for what an agent's code raised in a task that is no Exception: its `__cause__`."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(in_words(cause))
        self.__cause__ = cause
        self.by: RaisedBy = raised_by(cause)


RaisedBy = Literal["tool", "approver", "other"]
_DOORS: dict[str, RaisedBy] = {"call_user_code": "other", "decide": "approver"}
"""The functions of the harness that call those of the agent's file."""
OnRaised = Callable[[AgentRaised], None]


def ends_rollout(exc: BaseException) -> bool:
    """Return whether what came out of an agent's code is the code's own doing; False for what ends the whole run."""
    match exc:
        case asyncio.CancelledError():
            return anyio.current_effective_deadline() > -math.inf
        case KeyboardInterrupt():  # a second Ctrl-C is raised by the handler of asyncio's runner
            frames = [frame.f_code.co_name for frame, _ in traceback.walk_tb(exc.__traceback__)]
            return frames[-1:] != ["_on_sigint"]
        case GeneratorExit():
            return asyncio._get_running_loop() is not None  # noqa: SLF001 # else the coroutine is closed after its loop
        case _:
            return True


class _Tasks:
    """A loop's task factory: tasks within `tasks_contained` raise AgentRaised for what would end the loop."""

    def __init__(self, usual: Any) -> None:
        self.usual, self.users = usual, 0

    def __call__(self, loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> Any:
        on_raised, usual = _on_raised.get(), self.usual
        empty = _EMPTY.get(getattr(coro, "__qualname__", ""))
        if on_raised is None or (empty and empty is coro.cr_code):
            return usual(loop, coro, **options) if usual else asyncio.Task(coro, loop=loop, **options)
        if usual is None:
            return _Task(contained(coro, on_raised), loop=loop, **options)
        task = usual(loop, contained(coro, on_raised), **options)
        task.add_done_callback(partial(_close, coro))
        return task


_UNSET_HOOKS = [hook for name, hook in vars(RunHooksBase).items() if name.startswith("on_")]
_EMPTY = {function.__qualname__: function.__code__ for function in (noop_coroutine, *_UNSET_HOOKS)}
"""The SDK's coroutines that do nothing: a third of a rollout's tasks."""


class _Task(asyncio.Task[Any]):
    """A task that closes its coroutine where it is cancelled before its first step: it never awaits the coroutine."""

    def cancel(self, msg: Any = None) -> bool:
        frame: FrameType | None = cast("Any", self.get_coro()).cr_frame
        if frame:
            self.add_done_callback(partial(_close, frame.f_locals["work"]))
        return super().cancel(msg)


def _close(coro: Any, _: object) -> None:
    coro.close()


_on_raised: ContextVar[OnRaised | None] = ContextVar("harness_on_raised", default=None)


@contextmanager
def tasks_contained(on_raised: OnRaised) -> Generator[None]:
    """In the tasks that this task and those begin, let no SystemExit or KeyboardInterrupt end the loop.

    `on_raised` is called with what is raised instead: the SDK may make that a message to the model.
    """
    loop, token = asyncio.get_running_loop(), _on_raised.set(on_raised)
    factory = loop.get_task_factory()
    if not isinstance(factory, _Tasks):
        factory = _Tasks(factory)
        loop.set_task_factory(factory)
    factory.users += 1
    try:
        yield
    finally:
        _on_raised.reset(token)
        factory.users -= 1
        if not factory.users and loop.get_task_factory() is factory:
            loop.set_task_factory(factory.usual)


async def contained(work: Awaitable[Any], on_raised: OnRaised) -> Any:
    """Await the agent's code. Raises AgentRaised, after `on_raised`, for what would end the process or the loop."""
    try:
        return await work
    except BaseException as exc:
        if isinstance(exc, Exception | asyncio.CancelledError) or not ends_rollout(exc):
            raise
        raised = AgentRaised(exc)
        on_raised(raised)
        raise raised from exc


def in_words(exc: BaseException) -> str:
    """Return what was raised as messages name it: its type and text."""
    exc = exc.__cause__ if isinstance(exc, AgentRaised) and exc.__cause__ else exc
    return f"{type(exc).__name__}: {exc}"


def users_place(frame: FrameType | None) -> str | None:
    """Return the function, file and line of the innermost frame that is the user's own, None without one."""
    while frame:
        if not frame.f_code.co_filename.startswith(_NOT_THE_USERS):
            return _place(frame, frame.f_lineno)
        frame = frame.f_back
    return None


def raised_in(exc: BaseException, folder: Path | None = None) -> str | None:
    """Return the function, file and line in which the agent's own code raised; None where it did not.

    The agent's own is what is not installed, or lies in the agent's `folder`, and called neither the SDK nor the
    harness further on.
    """
    own = () if folder is None else (str(folder),)
    place = None
    for frame, line in traceback.walk_tb(exc.__traceback__):
        file = frame.f_code.co_filename
        if file.startswith(own) or not file.startswith(_NOT_THE_USERS):
            place = _place(frame, line)
        elif file.startswith((_SDK, _HARNESS)):
            place = None
    return place


def raised_by(exc: BaseException) -> RaisedBy:
    """Return what raised: a tool, `approve`, or whatever else the SDK calls; asked in the task that raised."""
    if isinstance(exc, AgentRaised):
        return exc.by
    if _is_tool_local_cancellation(exc):
        return "tool"
    codes = [frame.f_code for frame, _ in traceback.walk_tb(exc.__traceback__)]
    of_sdk = [code for code in codes if code.co_filename.startswith(_SDK) or code.co_name in _DOORS]
    for file, name in ((Path(code.co_filename).name, code.co_name) for code in reversed(of_sdk)):
        if "invoke_function_tool" in name or file == "tool_actions.py" or name == "_on_invoke_tool_impl":
            return "tool"
        if file == "run.py" or name in _DOORS:  # a run may be one within a tool
            return _DOORS.get(name, "other")
    in_tool = isinstance(getattr(get_current_span(), "span_data", None), FunctionSpanData)
    is_hook = any(code.co_name.startswith("on_tool_") for code in codes)  # which the SDK hands to a task of its own
    return "tool" if in_tool and not (of_sdk or is_hook) else "other"


NO_CONTEXT = "it reads the run's context, which is None: define `context(query)` in the agent's file"


def reads_no_context(exc: BaseException) -> bool:
    """Return whether code that the SDK had handed the run's context failed on None, and the context is None."""
    if isinstance(exc, AgentRaised | agents.UserError) and exc.__cause__:
        exc = exc.__cause__
    if not isinstance(exc, AttributeError | TypeError) or "'NoneType' object" not in str(exc):
        return False
    frames = [frame for frame, _ in traceback.walk_tb(exc.__traceback__)]
    own = [frame for frame in frames if not frame.f_code.co_filename.startswith(_NOT_THE_USERS)]
    handed: list[Any] = [value for frame in own for value in frame.f_locals.values()]
    return any(isinstance(value, agents.RunContextWrapper) and cast("Any", value).context is None for value in handed)


def misuses_sdk(exc: BaseException) -> bool:
    """Return whether the SDK, or the harness, could not use what the agent is made of."""
    if isinstance(exc, agents.UserError | UsageError):
        return True
    frames = [frame.f_code for frame, _ in traceback.walk_tb(exc.__traceback__)]
    # A function that does not take the arguments it is called with has no frame of its own.
    called = [code for code in frames[-1:] if code.co_filename.startswith(_SDK) or code.co_name in _DOORS]
    return isinstance(exc, TypeError) and bool(called)


def _place(frame: FrameType, line: int) -> str:
    return f"{frame.f_code.co_name} ({frame.f_code.co_filename}, line {line})"
