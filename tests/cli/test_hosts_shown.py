"""Every line before spending names the servers that will be asked, whatever a judge's label says."""

from pathlib import Path

from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint

RUN = ("run", "Why?", "-n", "2", "--model", "m", "--judge-label", "a-friend")


def test_run_best_rescore_resume_and_doctor_name_the_hosts_before_they_spend(
    harness: Harness, endpoint: FakeEndpoint, tmp_path: Path
):
    env = {"OPENAI_BASE_URL": endpoint.base_url}
    with FakeEndpoint().serving() as other:
        judge = ("--judge-base-url", other.base_url, "--judge-model", "j")
        agent_at, judge_at = f"m@{endpoint.host}", f"j@{other.host}"
        lines = [
            harness(*RUN, *judge, env=env),
            harness(*RUN, *judge, "--dry-run", env=env),
            harness("best", *RUN[1:], *judge, env=env),
            harness("doctor", "--model", "m", *judge, "--live", "--ports=", env=env),
        ]
        for done in lines:
            said = " ".join((done.err + done.out).split())
            assert f"agent: {agent_at}, judge: {judge_at}" in said
        planned = harness(*RUN, *judge, "--dry-run", "--json", env=env).json
        assert (planned["agent_at"], planned["judge_at"]) == (agent_at, judge_at)
        anew = harness("rescore", "--judge-label", "another", env=env)
        assert f"(judge: {judge_at})" in " ".join(anew.err.split())
        assert f"asking {judge_at}:" in harness("doctor", "--model", "m", *judge, "--judge", env=env).err
        for path in tmp_path.glob("runs/*/rankings/*.jsonl"):
            path.unlink()
        resumed = harness("resume", env=env)
        assert f"(agent: m@{endpoint.host}, judge: {judge_at})" in " ".join(resumed.err.split())
        assert "judge" not in harness("rescore", "-q", "--judge-label", "third", env=env).err
