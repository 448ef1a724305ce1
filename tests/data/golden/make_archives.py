"""Makes the archives of this folder. It was run once, with the code that the archives stand for; see README.md.

python -m tests.data.golden.make_archives FOLDER
"""

import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from tests.fake_endpoint import FakeEndpoint, Refuse, Say, Script, Seen, block, fair_judge, list_judge, verdict
from tests.nursery import Nursery

HERE = Path(__file__).parent
SETTINGS = {"TIKTOKEN_CACHE_DIR": ""}
"""Tokens are estimated, whatever encodings this machine has."""

TEA = "Why is tea hot?"
LIBRARIAN = ("--agent", "librarian.py:agent", "--queries", "two.jsonl")
RESPONSES = ("--api", "responses", "--rubric", "research", "--topology", "swiss", "--order", "balanced")
JURORS = ("--judge-model", "one", "--judge-model", "two", "--jury", "median")
RESEARCH = (("plan", "tool_use", "coverage"), ("relevance", "accuracy", "depth", "clarity"))
TIED = ("--judge-when", "tied", "--reward", "score")


def librarian(seen: Seen) -> Say:
    """Search, ask the critic, and by the seed answer or hand over to the writer."""
    seed = seen.body.get("seed", 0)
    if "weakness" in seen.system:
        return Say("It has no example.", usage=(30, 5))
    if "You write" in seen.system:
        return Say(f"The writer says {seed % 97}: order saves time.")
    done = len(seen.tool_outputs)
    if done == 0:
        return Say(calls=(("search", {"query": "order"}),), reasoning="I should search first.")
    if done == 1:
        return Say(calls=(("criticise", {"input": f"Draft {seed % 7}"}),))
    if seed % 2:
        return Say(calls=(("transfer_to_writer", {}),))
    return Say(f"The librarian says {seed % 89}. " + "Order saves time. " * (seed % 5))


def cities() -> Script:
    """Name a big city, a small one, an empty one, none, and fail once: each in its turn."""
    numbers = count()

    def city(name: str, people: int) -> Say:
        return Say(json.dumps({"name": name, "people": people}))

    turns: list[Any] = [
        city("Lagos", 15_000_000),
        city("Ulm", 130_000),
        city("Pripyat", 0),
        Say(refusal="I cannot tell."),
        Refuse(400, "this one does not work"),
        city("Lima", 10_000_000),
        city("Oslo", 700_000),
    ]
    return lambda _: turns[next(numbers) % len(turns)]


def numbered(seen: Seen) -> Say:
    """Answer by the seed, and search on the way where there is a tool."""
    if seen.body.get("tools") and not seen.tool_outputs and "seed" in seen.body:
        return Say(calls=(("search", {"query": "tea"}),))
    return Say(f"Answer {seen.body.get('seed', 0) % 1009}.", searched="tea" if "input" in seen.body else None)


def counted() -> Script:
    """Answer with another number every time, after a hosted search."""
    numbers = count(1)
    return lambda _: Say(f"Answer number {next(numbers)}.", searched="tea")


def by_research(seen: Seen) -> Say:
    """Judge by the rubric `research`, with a leaning to the first side."""
    a, b = (sum(map(ord, block(seen.user, f"ANSWER_{side}"))) % 9 for side in "AB")
    return Say(verdict(a + 1, b, rubric_keys=RESEARCH), usage=(900, 150))


def jurors(seen: Seen) -> Any:
    """Be two judges who look at different things."""
    length = seen.body["model"] == "one"
    return fair_judge(lambda text: len(text) % 11 if length else sum(map(ord, text)) % 11)(seen)


def failing_once(after: Script, number: int) -> Script:
    """Do as `after`, but refuse one call."""
    numbers = count()
    return lambda seen: Refuse(400, "no verdict today") if next(numbers) == number else after(seen)


class Maker:
    """Runs commands in a folder and keeps the run that they leave behind."""

    def __init__(self, nursery: Nursery, target: Path) -> None:
        self._nursery, self._target = nursery, target

    def keep(self, name: str, *commands: tuple[tuple[str, ...], int], **env: str) -> None:
        """Run the commands, each of which must end as told, and keep the run as archive `name`."""
        with tempfile.TemporaryDirectory() as folder:
            at = Path(folder)
            for path in [*HERE.glob("agents/*.py"), *HERE.glob("inputs/*")]:
                shutil.copy(path, at)
            for args, code in commands:
                stop = {"GOLDEN_STOP": "1"} if code == 143 else {}
                done = self._nursery.wait(self._nursery.start(args, at, SETTINGS | env | stop))
                assert done.code == code, f"{name}: {args} ended with {done.code}\n{done.err}"
            (run,) = (at / "runs").glob("2*")
            ignored = shutil.ignore_patterns("report.html", "report", "run.lock", "index.sqlite*")
            shutil.copytree(run, self._target / name / run.name, ignore=ignored)
        for empty in [p for p in (self._target / name).rglob("*") if p.is_dir() and not any(p.iterdir())]:
            empty.rmdir()

    def online(
        self,
        name: str,
        agent: Script,
        judge: Script,
        *commands: tuple[tuple[str, ...], int],
        address: Callable[[FakeEndpoint], str] = lambda e: e.base_url,
        **env: str,
    ) -> None:
        """Do so against a fake server."""
        with FakeEndpoint(agent, judge).serving() as endpoint:
            self.keep(name, *commands, OPENAI_BASE_URL=address(endpoint), **env)


def priced(endpoint: FakeEndpoint) -> str:
    """Return an address for which the price library lists prices: it looks for Azure's name anywhere."""
    return f"http://localhost:{endpoint.host.split(':')[1]}/x.openai.azure.com/v1"


def main(target: Path) -> None:
    """Make all."""
    with Nursery() as nursery:
        make = Maker(nursery, target)
        run, small = ("run", TEA, "-q"), ("run", TEA, "--agent", "stopping.py", "-q")
        stopping = (*small, "--offline")
        make.keep("offline-arena", (("run", "-n", "4", "-q"), 0))
        make.keep("offline-cyclic", ((*stopping, "-n", "4", "--budget", "8"), 0))
        make.keep("offline-ruler", ((*stopping, "-n", "3", "--judge", "ruler"), 0))
        make.keep("offline-unjudged", ((*run, "--agent", "triage", "-n", "3", "--topology", "none"), 0))
        make.keep("offline-manager", ((*run, "--agent", "manager", "-n", "2", "--topology", "single"), 0))
        cut = (*stopping, "-n", "4", "--concurrency", "1")
        make.keep("offline-interrupted", (cut, 143))
        make.keep("offline-resumed", (cut, 143), (("resume", "-q"), 0))
        many = ("run", "--agent", "stopping.py:agent", "--queries", "many.jsonl", "--offline", "-n", "2", "-q")
        for side in ("short", "long"):
            make.keep(f"offline-{side}", ((*many, "--instructions", f"{side}.md", "--topology", "none"), 0))
        make.keep(
            "imported",
            (("import", "made.jsonl", "atif.json", "--first-is-anchor"), 0),
            (("rescore", "--judge-model", "offline-features", "-q"), 0),
        )
        make.online("online-arena", librarian, fair_judge(), (("run", *LIBRARIAN, "-n", "3", "-q"), 0))
        make.online(
            "online-responses",
            counted(),
            by_research,
            ((*run, *RESPONSES, "-n", "4", "--judge-repeats", "2"), 0),
            OPENAI_API_KEY="the-key-of-no-one",
        )
        design = ("--topology", "round_robin", "--estimator", "bt")
        make.online("online-jury", numbered, jurors, ((*small, "--model", "m", "-n", "4", *JURORS, *design), 0))
        make.online("online-ruler", numbered, list_judge(), ((*run, "--model", "m", "-n", "4", "--judge", "ruler"), 0))
        city = ("run", "--agent", "city.py:agent", "--queries", "cities.jsonl", "--concurrency", "1", "-q")
        make.online("online-verified", cities(), fair_judge(), ((*city, "-n", "7", *TIED), 1))
        make.online(
            "online-resumed",
            numbered,
            fair_judge(),
            ((*small, "--model", "gpt-4o-mini", "-n", "4", "--max-cost", "0.001"), 4),
            (("resume", "--max-cost", "1", "-q"), 0),
            address=priced,
        )
        make.online(
            "online-asked-again",
            numbered,
            failing_once(fair_judge(), 2),
            ((*small, "--model", "m", "-n", "3", "--judge-concurrency", "1"), 3),
            (("resume", "-q"), 0),
        )
        make.online(
            "online-best",
            numbered,
            fair_judge(),
            (("best", TEA, "--agent", "stopping.py", "--model", "m", "-n", "5", "-q"), 0),
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
