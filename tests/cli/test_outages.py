"""A judge or an agent's endpoint that is down, as a user meets it: the command says so, and `resume` ends the work."""

import threading

from tests.cli.test_sigkill import Bill, by_seed
from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint, Reaction, Refuse, Seen, fair_judge

RUN = tuple("run Why? --agent search --model m -n 3 --give-up 0.5 --retries 1 --judge-concurrency 2".split())
DOWN = Refuse(503, "down for maintenance")


def test_a_judge_that_is_down_ends_in_exit_3_with_what_is_kept_and_resume_ranks(harness: Harness) -> None:
    with FakeEndpoint(by_seed, lambda _: DOWN).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        done = harness(*RUN, env=env)
        assert done.code == 3, done.err
        for words in ("gave no reply for 0.5 s (--give-up)", "HTTP 503", "3 of 3 rollouts", "`harness resume runs"):
            assert words in " ".join(done.err.split())
        assert len(endpoint.of_judge) <= 22
        assert harness("show", "last").code == 0
        endpoint.judge = fair_judge()
        resumed = harness("resume", "--json", env=env)
        assert resumed.code == 0, resumed.err
        assert len(Bill(endpoint).rollouts) == 3
        assert "nothing to do" in harness("resume", env=env).out
    assert [r["rank"] is not None for r in resumed.json["groups"][0]["rollouts"]] == [True] * 3


def test_what_the_server_failed_is_run_again_by_resume_as_the_next_line_says(harness: Harness) -> None:
    broken = threading.Event()

    def agent(seen: Seen) -> Reaction:
        if not broken.is_set() and len(endpoint.of_agent) > 3:
            return Refuse(400, "this one does not work")
        return by_seed(seen)

    with FakeEndpoint(agent, fair_judge()).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        short = harness(*RUN, "--concurrency", "1", env=env)
        assert short.code in {1, 3}, short.err
        assert "harness resume " in short.out.split("next:", 1)[1]
        assert "--retry-failed" not in short.out
        broken.set()
        done = harness("resume", "--json", env=env)
        assert done.code == 0, done.err
    assert [r["status"] for r in done.json["groups"][0]["rollouts"]] == ["ok"] * 3
