"""`harness doctor --judge --probe RUN`: leanings are found by few calls, kept with the run, and taken out."""

import json
import math
import re
from itertools import count
from pathlib import Path

import pytest

from harness.archive.reader import RunReader
from tests.conftest import Done, Harness
from tests.fake_endpoint import FakeEndpoint, Say, Seen, block, verdict

WORDS = "Light of the sky is scattered by the air on its way to the ground. "


def wordy_agent():
    """Answers 0 to 5 of each query are worth 0 to 5; the better, the shorter."""
    numbers = count()

    def reply(_: Seen) -> Say:
        worth = next(numbers) % 6
        return Say(f"Worth {worth}. {WORDS * (2 ** (5 - worth))}")

    return reply


def leaning_judge(seen: Seen) -> Say:
    """Give a point for what an answer is worth, and two for each doubling of its length."""

    def mark(side: str) -> int:
        text = block(seen.user, f"ANSWER_{side}")
        found = re.search(r"[Ww]orth\D*(\d)", text)
        assert found, text
        return round(min(10, max(0, 0.8 * int(found[1]) + 2 * math.log2(len(text) / 400))))

    return Say(verdict(mark("A"), mark("B")))


@pytest.fixture
def probed(harness: Harness, tmp_path: Path) -> tuple[Done, Done, Done, Path]:
    """A run of two queries under a judge that leans: what run, probing and rescoring without an option print."""
    (tmp_path / "q.jsonl").write_text("".join(json.dumps({"id": q, "query": f"Why {q}?"}) + "\n" for q in "ab"))
    with FakeEndpoint(wordy_agent(), leaning_judge).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "sk-agent"}
        words = "run --queries q.jsonl -n 6 --topology cyclic --estimator pooled --model m --concurrency 1 --json -q"
        run = harness(*words.split(), env=env)
        asked = len(endpoint.of_judge)
        probe = harness(*"doctor --judge --probe last --json".split(), env=env)
        assert len(endpoint.of_judge) - asked == probe.json["bought"] <= 40
        again = harness(*"doctor --judge --probe last".split(), env=env)
        assert again.code == 0
        assert len(endpoint.of_judge) - asked == probe.json["bought"]
        rescored = harness(*"rescore last --json -q".split(), env=env)
    assert [done.code for done in (run, probe, rescored)] == [0, 0, 0], (run.err, probe.err, rescored.err)
    return run, probe, rescored, tmp_path / run.json["path"]


def winners(done: Done) -> list[int]:
    return [min(group["rollouts"], key=lambda r: r["rank"])["index"] for group in done.json["groups"]]


def worth(folder: Path) -> list[int]:
    """Return which rollout of each query has the best answer."""
    with RunReader(folder) as reader:
        groups = [reader.group(query).rollouts for query in reader.queries()]
    return [next(r.index for r in group if r.trajectory.answer.startswith("Worth 5.")) for group in groups]


def test_a_leaning_is_found_kept_and_taken_out_and_the_record_says_so(
    probed: tuple[Done, Done, Done, Path], harness: Harness
):
    run, probe, rescored, folder = probed
    assert probe.json["leanings"]["length"]["points"] > 1
    assert probe.json["leanings"]["calls"] <= 40
    assert winners(run) != worth(folder)
    assert winners(rescored) == worth(folder)
    with RunReader(folder) as reader:
        before, after = reader.rankings()
        assert (before.head.leanings, after.head.leanings is None) == (None, False)
        assert all(not match.features for group in before.groups for match in group.matches)
        assert all(len(match.features) == 2 for group in after.groups for match in group.matches)
    assert harness("validate", str(folder)).code == 0
    shown = harness("stats", str(folder)).out
    assert "a longer answer by half gets +" in shown
    assert shown.count("still has these leanings in it") == 1


def test_a_profile_lends_its_leanings_and_rankings_for_free_go_by_them(
    probed: tuple[Done, Done, Done, Path], harness: Harness
):
    _, _, rescored, folder = probed
    assert harness("stats", str(folder), "--profile", "p.json").code == 0
    free = harness(*"rescore last --free --json -q --judge-profile p.json".split())
    assert winners(free) == winners(rescored)
    assert harness("validate", str(folder)).code == 0


def test_where_a_judge_leans_the_spread_design_is_advised_before_and_after_a_run_by_brackets(harness: Harness):
    with FakeEndpoint(wordy_agent(), leaning_judge).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "sk-agent"}
        run = harness(*"run Why? -n 6 --model m --concurrency 1 -q".split(), env=env)
        probe = harness(*"doctor --judge --probe last".split(), env=env)
    assert (run.code, probe.code) == (0, 0), run.err + probe.err
    shown = " ".join(harness("stats", "--profile", "p.json").out.split())
    assert "as many calls, spread evenly, rank better: --topology auto" in shown
    plan = "run --dry-run Why? --model m --judge-profile"
    leaning, unknown = (harness(*plan.split(), profile, env=env).out for profile in ("p.json", "usual"))
    assert ".76 in place of .72 under a judge with leanings" in leaning
    assert ".78 in place of .73 under a usual judge" in unknown


def test_without_probes_stats_says_what_is_not_known_and_how_to_tell(harness: Harness):
    assert harness(*"run --offline -n 5 -q --estimator pooled".split(), "Why Lisp?").code == 0
    shown = " ".join(harness("stats").out.split())
    assert "what it gives for length and formatting alone is not known" in shown
    assert "doctor --judge --probe" in shown


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("--probe last", "--probe is for --judge alone"),
        ("--judge --probe last --pairs p.csv", "--probe is for --judge alone"),
        ("--judge --probe last --model m", "--model with --probe"),
        ("--judge --probe nowhere", "nowhere"),
    ],
)
def test_what_cannot_be_probed_exits_2_with_one_line(harness: Harness, words: str, error: str):
    done = harness("doctor", *words.split())
    assert done.code == 2
    assert error in done.err
    assert len(done.err.strip().splitlines()) == 1
