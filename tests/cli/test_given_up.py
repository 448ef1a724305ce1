"""The exit code where an endpoint was given up: 3 where nothing could be ranked, else 1; what is kept is named."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.test_sigkill import by_seed
from tests.fake_endpoint import FakeEndpoint, Reaction, Refuse, Script, Seen, fair_judge
from tests.fuzz.attempts import Outcome, attempt

DOWN = Refuse(429, "slow down")
"""After it an endpoint is given up at once, where nobody is patient; a 503 is tried again first (test_outages.py)."""
PATIENCE = "--give-up 0.0001".split()
RUN = (*"run --queries q.jsonl --agent search --model m -n 2 --concurrency 1 --judge-concurrency 1".split(), *PATIENCE)
BEST = (*"best Why? --agent search --model m -n 3 --concurrency 1 --judge-concurrency 1".split(), *PATIENCE)
Run = Callable[..., Outcome]


class Until:
    """A server's side that is sound for its first so many requests, and then down."""

    def __init__(self, sound: int, answer: Script) -> None:
        self._left, self._answer = sound, answer

    def __call__(self, seen: Seen) -> Reaction:
        self._left -= 1
        return self._answer(seen) if self._left >= 0 else DOWN


@pytest.fixture
def run(endpoint: FakeEndpoint, tmp_path: Path) -> Run:
    """Run a command at the endpoint, in this process; --agent and --judge say for how long either side is sound."""
    (tmp_path / "q.jsonl").write_text("".join(json.dumps({"id": q, "query": f"Why {q}?"}) + "\n" for q in "ab"))

    def command(*argv: str, agent: int = 10**6, judge: int = 10**6) -> Outcome:
        endpoint.agent, endpoint.judge = Until(agent, by_seed), Until(judge, fair_judge())
        folders = {name: os.environ[name] for name in ("PATH", "XDG_STATE_HOME", "XDG_CACHE_HOME")}
        environ = folders | {"OPENAI_BASE_URL": endpoint.base_url, "NO_COLOR": "1", "TERM": "dumb"}
        outcome = attempt(argv, tmp_path, environ, reachable=endpoint.host)
        assert outcome.faults() == []
        return outcome

    return command


def check(outcome: Outcome, code: int) -> None:
    """Check the exit code, and that why, what is kept and what to do are said."""
    said = " ".join(outcome.err_text.split())
    assert outcome.code == code, said
    for words in (
        "nothing but rate limits (HTTP 429) for 0.0001 s (--give-up)",
        "a lower --concurrency",
        "are kept in",
        "`harness resume ",
    ):
        assert words in said, said


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("sound", "code"),
    [({"judge": 0}, 3), ({"judge": 1}, 3), ({"judge": 2}, 1), ({"agent": 1}, 3), ({"agent": 5}, 1)],
    ids=str,
)
def test_run_ends_in_3_where_no_query_could_be_ranked_else_in_1_whatever_failures_are_allowed(
    run: Run, sound: dict[str, int], code: int
) -> None:
    check(run(*RUN, "--max-failures", "99", **sound), code)
    failed = [r["failure"] for g in json.loads(run("show", "--json").out)["groups"] for r in g["rollouts"]]
    assert {failure["kind"] for failure in failed if failure} <= {"api"}
    done = run("resume", "--json")
    assert done.code == 0, done.err_text
    assert [r["status"] for g in json.loads(done.out)["groups"] for r in g["rollouts"]] == ["ok"] * 4


@pytest.mark.parametrize(("agent", "code"), [(1, 3), (2, 1)])
def test_a_run_that_is_to_be_judged_later_ends_in_3_only_where_no_rollout_ended_well(
    run: Run, agent: int, code: int
) -> None:
    check(run(*RUN, *"--topology none --max-failures 99".split(), agent=agent), code)


@pytest.mark.parametrize(("judge", "code"), [(1, 3), (2, 1)])
def test_rescore_ends_in_3_where_no_query_could_be_ranked_else_in_1(run: Run, judge: int, code: int) -> None:
    assert run(*RUN).code == 0
    check(run(*"rescore --judge-model other --max-failures 99".split(), *PATIENCE, judge=judge), code)
    assert run("resume").code == 0
    assert "nothing to do" in run("resume").out_text


@pytest.mark.parametrize(("later", "code"), [({"judge": 2}, 1), ({"agent": 0}, 3)], ids=str)
def test_resume_ends_in_3_where_no_query_could_be_ranked_else_in_1(run: Run, later: dict[str, int], code: int) -> None:
    check(run(*RUN, agent=1), 3)
    check(run("resume", **later), code)
    assert run("resume").code == 0


@pytest.mark.parametrize("sound", [{"judge": 0}, {"agent": 5}], ids=str)
def test_best_answers_with_the_anchors_answer_where_nothing_could_be_ranked(run: Run, sound: dict[str, int]) -> None:
    outcome = run(*BEST, **sound)
    check(outcome, 0)
    assert "the answer of rollout 0 is the anchor's" in outcome.err_text
    assert outcome.out
    done = run("resume")
    assert done.code == 0, done.err_text
