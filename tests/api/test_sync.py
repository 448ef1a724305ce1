"""The sync twins, and `harness.preload()`."""

import asyncio
import contextvars
import os
import signal
import subprocess
import sys
import threading
import traceback
from pathlib import Path

import pytest

from harness.core.sync import in_step
from tests.conftest import ROOT

pytestmark = pytest.mark.anyio
WORD = contextvars.ContextVar("WORD", default="")


async def where(word: str, *, wrong: bool = False) -> tuple[str, str, threading.Thread]:
    await asyncio.sleep(0)
    if wrong:
        raise LookupError(word)
    return word, WORD.get(), threading.current_thread()


def test_a_sync_twin_works_in_a_script_and_keeps_name_and_docstring():
    assert in_step(where)("here") == ("here", "", threading.current_thread())
    assert in_step(where).__name__ == "where"
    with pytest.raises(LookupError) as raised:
        in_step(where)("here", wrong=True)
    assert raised.value.__context__ is None


async def test_a_sync_twin_works_where_a_loop_is_running_in_a_thread_of_its_own():
    WORD.set("seen")
    word, seen, thread = in_step(where)("here")
    assert (word, seen) == ("here", "seen")
    assert thread is not threading.current_thread()
    with pytest.raises(LookupError, match="here"):
        in_step(where)("here", wrong=True)


def test_ctrl_c_in_a_notebook_cancels_what_runs_in_the_thread_and_is_raised():
    ended: list[str] = []

    main = threading.main_thread().ident or 0

    def is_waited_for() -> bool:
        frame = sys._current_frames()[main]
        return {"wait", "result"} <= {waiting.f_code.co_name for waiting, _ in traceback.walk_stack(frame)}

    async def interrupted() -> None:
        while not is_waited_for():  # noqa: ASYNC110 - another thread's frames set no event
            await asyncio.sleep(0.05)
        try:
            for _ in range(3):  # a signal between the check and the wait is seen only once the wait ends
                signal.pthread_kill(main, signal.SIGINT)
                await asyncio.sleep(10)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def cell() -> None:
        in_step(interrupted)()

    loop = asyncio.new_event_loop()  # a notebook's has no handler of Ctrl-C of its own, as asyncio.run has
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell runs in the background ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(cell())
    finally:
        signal.signal(signal.SIGINT, before)
        loop.close()
    assert ended == ["cancelled"]


PRELOADED = """
import asyncio, gc, ssl, sys
from agents import Agent
import harness
from tests.fake_endpoint import FakeEndpoint

async def serve(base_url):
    harness.preload()
    before = set(sys.modules)
    ssl.create_default_context = None  # who loads certificates now fails
    await harness.best_of(Agent(name="a", model="m"), "Why?", 3, base_url=base_url, api=sys.argv[1])
    print(sorted(set(sys.modules) - before), gc.get_freeze_count() > 0, gc.get_threshold()[2])

with FakeEndpoint().serving() as endpoint:
    asyncio.run(serve(endpoint.base_url))
"""


@pytest.mark.nightly
@pytest.mark.process
@pytest.mark.parametrize("api", ["chat", "responses"])
def test_after_preload_a_first_call_imports_nothing_and_loads_no_certificates_also_where_a_loop_runs(
    api: str, tmp_path: Path
):
    certificates = {**os.environ, "SSL_CERT_FILE": "", "SSL_CERT_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", PRELOADED, api], cwd=ROOT, env=certificates, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "[] True 500", done.stdout + done.stderr
