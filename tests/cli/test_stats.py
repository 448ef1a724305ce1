"""`harness stats`, and what a run says of its judge: judges with known faults, through the whole command."""

import hashlib
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from tests.conftest import Done, Harness
from tests.fake_endpoint import FakeEndpoint, Say, Script, Seen, block, verdict


def answering() -> Script:
    numbers = count(1)
    return lambda seen: Say(f"Answer number {next(numbers)}.")


def noise(seen: Seen, salt: str) -> int:
    return hashlib.sha256((salt + block(seen.user, "ANSWER_A") + block(seen.user, "ANSWER_B")).encode()).digest()[0]


def always_first(seen: Seen) -> Say:
    """Whatever stands first is better, by 2 to 6 points that mean nothing."""
    return Say(verdict(7 + noise(seen, "a") % 3, 3 + noise(seen, "b") % 3))


def always_first_the_same(_: Seen) -> Say:
    return Say(verdict(9, 3))


def quality(text: str) -> int:
    return int("".join(c for c in text if c.isdigit()) or 0) % 9


def biased(seen: Seen) -> Say:
    """Marks an answer by its number, and adds 2 to the one shown first."""
    a, b = (quality(block(seen.user, f"ANSWER_{side}")) for side in "AB")
    return Say(verdict(min(10, a + 2), b))


def judged_by(harness: Harness, judge: Callable[[Seen], Say], *args: str) -> Done:
    """Run with one rollout at a time, so that the n-th answer is always the same rollout's."""
    with FakeEndpoint(answering(), judge).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        return harness("run", "Why?", "--model", "m", "--concurrency", "1", *args, env=env)


def figures(harness: Harness) -> dict:
    done = harness("stats", "--json")
    assert done.code == 0, done.err
    (ranking,) = done.json["rankings"]
    (judge,) = ranking["judges"]
    return judge | {"signals": ranking["signals"]}


@pytest.mark.few(1)
@pytest.mark.parametrize(("n", "judge"), [(8, always_first), (4, always_first_the_same)])
def test_a_judge_that_always_prefers_the_first_is_found_out_and_its_ranking_called_noise(
    harness: Harness, tmp_path: Path, judge: Callable[[Seen], Say], n: int
):
    done = judged_by(harness, judge, "-n", str(n))
    assert done.code == 0, done.err
    assert "its ranking is noise: in" in done.out
    assert "named the side shown first, whichever answer that was" in done.out
    assert "note: this ranking is noise" in done.out
    (group,) = harness("show", "--json").json["groups"]
    assert any("this ranking is noise" in note for note in group["notes"])
    assert all((r["p_best"] or 0) < 0.95 for r in group["rollouts"])  # nobody is surely the best
    told = figures(harness)
    assert told["flips"]["share"] == told["first_wins"]["share"] == 1.0
    assert told["first_side"]["real"]
    assert set(told["signals"]) <= {"none", "weak"}
    (page,) = (tmp_path / "runs").glob("*/report.html")
    assert "The judge: its ranking is noise" in page.read_text()
    assert "This ranking is noise" in page.read_text()
    assert "the judge: its ranking is noise" in (text := harness("stats").out)
    assert "1 query, signal unclear 1" in text or "1 query, signal no difference 1" in text


def test_such_a_judge_is_called_noise_in_one_order_too(harness: Harness):
    done = judged_by(harness, always_first, "--order", "balanced")
    assert done.code == 0, done.err
    told = figures(harness)
    assert told["flips"]["of"] == 0
    assert told["first_wins"]["share"] == 1.0
    assert told["first_side"]["real"]
    assert told["first_side"]["points"] > 2
    assert set(told["signals"]) <= {"none", "weak"}
    assert "note: this ranking is noise" in done.out


def test_a_constant_bias_is_reported_with_its_size_and_that_both_orders_cancel_it(harness: Harness, tmp_path: Path):
    done = judged_by(harness, biased)
    assert done.code == 0, done.err
    best = min(harness("show", "--json").json["groups"][0]["rollouts"], key=lambda r: r["rank"])
    assert quality(best["answer"]) == 8
    assert "points to this judge; judging both orders cancels it" in done.out
    assert "noise" not in done.out
    told = figures(harness)
    assert told["first_side"]["real"]
    assert told["first_side"]["points"] == pytest.approx(2, abs=0.25)
    assert told["signals"] == {"ok": 1}
    assert told["one_order"]["verdict"] in {"one order", "too few"}
    (page,) = (tmp_path / "runs").glob("*/report.html")
    assert "judging both orders cancels it" in page.read_text()


@pytest.mark.nightly
def test_over_many_queries_the_summary_says_so_too_and_one_order_is_advised_for_a_constant_bias(
    harness: Harness, tmp_path: Path
):
    (tmp_path / "q.txt").write_text("".join(f"Why {i}?\n" for i in range(5)))
    with FakeEndpoint(answering(), always_first).serving() as endpoint:
        done = harness(
            *"run --queries q.txt -n 5 --concurrency 1 --model m".split(),
            env={"OPENAI_BASE_URL": endpoint.base_url},
        )
    assert "of 5 queries are noise" in done.out
    assert "its ranking is noise" in done.out
    with FakeEndpoint(answering(), biased).serving() as endpoint:
        harness(
            *"run --queries q.txt -n 5 --concurrency 1 --model m".split(),
            env={"OPENAI_BASE_URL": endpoint.base_url},
        )
    advice = figures(harness)["one_order"]
    assert advice["verdict"] == "one order"
    assert advice["saves_calls"] * 2 == advice["of_calls"] == 2 * advice["pairs"]
    assert f"saves {advice['saves_calls']} of {advice['of_calls']} calls" in " ".join(harness("stats").out.split())


def test_a_judge_that_gives_8_to_everything_is_named(harness: Harness):
    done = judged_by(harness, lambda _: Say(verdict(8, 8)))
    assert "it gives 8 to 100 % of the answers" in done.out
    assert figures(harness)["flat_mark"] == 8


def test_each_ranking_of_a_run_has_its_own_figures_by_judge(harness: Harness):
    with FakeEndpoint(answering(), always_first).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        assert harness("run", "Why?", "--model", "m", "-n", "4", env=env).code == 0
        endpoint.judge = lambda seen: Say(verdict(*(quality(block(seen.user, f"ANSWER_{side}")) for side in "AB")))
        assert harness("rescore", "--judge-model", "other", env=env).code == 0
    done = harness("stats", "--json")
    judges = {r["judges"][0]["judge"].split("@")[0]: r["judges"][0] for r in done.json["rankings"]}
    assert judges["m"]["flips"]["share"] == 1.0
    assert judges["other"]["flips"]["share"] == 0.0
    one = done.json["rankings"][1]["ranking"]
    assert [r["ranking"] for r in harness("stats", "--ranking", one, "--json").json["rankings"]] == [one]


def test_claims_repairs_and_failures_are_counted(harness: Harness):
    numbers = count()

    def judge(seen: Seen) -> Say:
        if next(numbers) % 5 == 0:
            return Say("no JSON")
        return Say(verdict(6, 4).replace('"winner": "LLM_A"', '"winner": "LLM_B"'))

    assert judged_by(harness, judge, "-n", "4").code == 0
    told = figures(harness)
    assert told["claims"]["count"] == told["claims"]["of"] == told["claims"]["other_winner"] > 0
    assert told["repaired"] > 0
    assert judged_by(harness, lambda _: Say("never JSON"), "-n", "3").code == 3
    assert figures(harness)["failed"] == 4
    assert "harness rescore" in harness("stats").out


def test_a_run_that_is_not_there_or_not_ranked_is_one_line(harness: Harness):
    for args in (["stats", "nowhere"], ["stats"]):
        done = harness(*args)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("error: ")
    assert judged_by(harness, biased, "-n", "2").code == 0
    done = harness("stats", "--ranking", "none")
    assert done.code == 2
    assert "no ranking 'none'" in done.err
