"""What a tool does to the process that all rollouts share ends no run."""

from pathlib import Path

from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint, Say, Seen, fair_judge

AGENT = """
import asyncio, os, resource, sys, tempfile
from agents import Agent, function_tool

LEFT = []
FEW = 64
resource.setrlimit(resource.RLIMIT_NOFILE, (FEW, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

async def deaf():
    while True:
        try:
            await asyncio.sleep(60)
        except:
            pass

@function_tool
async def act(how: str) -> str:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] == FEW:
        sys.exit("no more files may be open than the shell had allowed")
    if how == "close stdout":
        sys.stdout.close()
    elif how == "remove the working folder":
        os.chdir(tempfile.mkdtemp())
        os.rmdir(os.getcwd())
    else:
        LEFT.append(asyncio.ensure_future(deaf()))
    return how

agent = Agent(name="rude", model="m", tools=[act])
"""
MANNERS = ("close stdout", "remove the working folder", "leave a task that hears no cancellation")


def acting(seen: Seen) -> Say:
    return Say("Done.") if seen.tool_outputs else Say(calls=(("act", {"how": seen.user}),))


def test_a_run_ends_well_whatever_its_tools_do_to_stdout_the_working_folder_and_the_loop(
    program: Harness, tmp_path: Path
):
    (tmp_path / "rude.py").write_text(AGENT)
    (tmp_path / "q.txt").write_text("\n".join(MANNERS))
    with FakeEndpoint(agent=acting, judge=fair_judge()).serving() as endpoint:
        at = ("--agent", "rude.py", "--base-url", endpoint.base_url, "-n", "2", "--concurrency", "1")
        done = program("run", "--queries", "q.txt", *at)
    assert done.code == 0, done.err
    assert "Traceback" not in done.err
    assert all(how in done.out for how in MANNERS)
    assert program("validate").code == 0
