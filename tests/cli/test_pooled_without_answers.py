"""`--estimator pooled` where the rollouts of a query all fail: there is nothing to fit, and that is no error."""

from pathlib import Path

import pytest

from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint, Say, Seen, fair_judge

AGENT = 'from agents import Agent\nagent = Agent(name="plain", instructions="Answer.")\n'


def cut_on_the_second(seen: Seen) -> Say:
    return Say("cut", finish="length") if "Second" in str(seen.body) else Say(f"Answer {seen.body['temperature']}.")


@pytest.mark.few(1)
@pytest.mark.parametrize(("queries", "code"), [("First?\nSecond?\nThird?\n", 1), ("Second?\n", 3)])
def test_such_a_query_is_left_unranked_and_the_others_are_ranked(
    queries: str, code: int, harness: Harness, tmp_path: Path
):
    (tmp_path / "plain.py").write_text(AGENT)
    (tmp_path / "q.txt").write_text(queries)
    words = "--queries q.txt --agent plain.py --model m -n 3 --estimator pooled --judge-model j"
    with FakeEndpoint(cut_on_the_second, fair_judge(lambda text: 9 if "0.0" in text else 5)).serving() as endpoint:
        done = harness("run", *words.split(), "--json", env={"OPENAI_BASE_URL": endpoint.base_url})
        assert done.code == code, done.err
        again = harness("rescore", "--free", "--json", env={"OPENAI_BASE_URL": endpoint.base_url})
    assert again.code == code, again.err
    ranked = {group["query"]: [r["rank"] for r in group["rollouts"]] for group in again.json["groups"]}
    assert [rank for rank in ranked["Second?"] if rank is not None] == []
    assert all(None not in ranks for query, ranks in ranked.items() if query != "Second?")
