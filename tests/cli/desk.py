"""A user's working folder for the tests of comparisons, and a server that has both models and the judge."""

import hashlib
import shutil
from collections.abc import Mapping
from itertools import count
from pathlib import Path

from harness.archive.run_info import list_comparisons
from tests.fake_endpoint import FakeEndpoint, Reaction, Say, Seen, block, verdict
from tests.fuzz.attacks import Room
from tests.fuzz.attempts import Outcome, attempt

QUERIES = ("Why is the sky blue?", "What is Lisp?", "Who was Ada?", "How do bees fly?")
MODELS = {"weak": 3, "middling": 5, "strong": 8}
NUMBERS = count()


def by_model(seen: Seen) -> Say:
    """Say who answers what, each time in other words; the judge likes one model's answers better."""
    return Say(f"{seen.body['model']} on {seen.user}, for the {next(NUMBERS)}th time", usage=(100, 20))


def partial_judge(seen: Seen) -> Reaction:
    """Mark an answer by the model that it names."""
    marks = [MODELS[block(seen.user, f"ANSWER_{side}").split()[0]] for side in "AB"]
    return Say(verdict(*marks), usage=(1000, 200))


class Desk:
    """A user's working folder with two runs of the same queries, and a server that has both models and the judge."""

    def __init__(self, top: Path, endpoint: FakeEndpoint) -> None:
        self.room, self.endpoint = Room.make(top), endpoint
        self.work = self.room.work
        endpoint.agent, endpoint.judge = by_model, partial_judge
        (self.work / "q.txt").write_text("\n".join(QUERIES))
        (self.work / "poet.py").write_text(
            'from agents import Agent\nagent = Agent(name="poet", instructions="Answer.")\n'
        )

    def __call__(self, *argv: str, environ: Mapping[str, str] | None = None) -> Outcome:
        of_user = {"OPENAI_BASE_URL": self.endpoint.base_url} if environ is None else environ
        around = self.room.environ(of_user)
        outcome = attempt(argv, self.work, around, reachable=self.endpoint.host, piped=True)
        assert not outcome.faults(), outcome.err_text
        return outcome

    def copy(self, other: "Desk") -> None:
        """Take over what another desk has made."""
        for made, mine in ((other.room.runs, self.room.runs), (other.room.home, self.room.home)):
            shutil.copytree(made, mine, dirs_exist_ok=True)

    def run(self, model: str, *more: str, queries: str = "q.txt", judge: str = "judge") -> str:
        """Roll a model out on the queries; return the run's id."""
        before = self.folders()
        rolled_out = ("run", "--agent", "poet.py", "--model", model, "--queries", queries, "--topology", "none")
        done = self(*rolled_out, "-n", "3", "--judge-model", judge, *more, "-q")
        assert done.code == 0, done.err_text
        (run,) = self.folders() - before
        return run

    def folders(self) -> set[str]:
        return {path.name for path in self.room.runs.iterdir()} if self.room.runs.exists() else set()

    def last_comparison(self) -> str:
        return list_comparisons(self.room.runs)[-1].name

    def bytes_of(self, run: str) -> dict[str, str]:
        files = [path for path in (self.room.runs / run).rglob("*") if path.is_file()]
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
