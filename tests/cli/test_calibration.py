"""`harness doctor --judge`: judges with known faults on pairs with known answers."""

import json
import re
from pathlib import Path

import pytest

from harness.doctor.calibration import bundled_pairs
from tests.conftest import ROOT, Done, Harness
from tests.fake_endpoint import FakeEndpoint, Refuse, Say, Script, Seen, block, verdict

KEY = "sk-proj-4f9A77q2Zx81"
CLASSES = {"truncated", "off_topic", "repeating", "leaked_reasoning", "padded", "injected", "identical"}


def marking(mark, bias: int = 0) -> Script:
    """Marks each answer by `mark`, and the one shown first `bias` higher."""

    def reply(seen: Seen) -> Say:
        a, b = (mark(block(seen.user, f"ANSWER_{side}")) for side in "AB")
        return Say(verdict(min(10, a + bias), b))

    return reply


def better_answers() -> set[str]:
    return {(p.sides[1] if p.label == "b" else p.sides[0]).answer for p in bundled_pairs()}


def calibrate(
    harness: Harness, judge: Script, *args: str, env: dict[str, str] | None = None
) -> tuple[Done, FakeEndpoint]:
    with FakeEndpoint(judge=judge).serving() as endpoint:
        done = harness(
            "doctor", "--judge", "--judge-model", "j", *args, env={"OPENAI_BASE_URL": endpoint.base_url} | (env or {})
        )
    assert "Traceback" not in done.err, done.err
    return done, endpoint


def pairs_file(folder: Path, *pairs: dict) -> str:
    (folder / "pairs.jsonl").write_text("".join(json.dumps(p) + "\n" for p in pairs))
    return "pairs.jsonl"


def test_a_perfect_judge_is_right_everywhere_for_the_calls_that_were_announced(harness: Harness):
    good = better_answers()
    done, endpoint = calibrate(harness, marking(lambda text: 9 if text in good else 3), "--json")
    assert done.code == 0, done.err
    assert "52 calls for 28 pairs" in done.err
    assert len(endpoint.of_judge) == len(endpoint.requests) == 52
    assert done.json["accuracy"]["share"] == done.json["kappa"] == 1
    assert {name: (c["pairs"], c["right"]) for name, c in done.json["classes"].items()} == dict.fromkeys(
        CLASSES, (4, 4)
    )
    assert done.json["first_side"] == {"points": 0, "standard_error": 0}
    assert done.json["flips"]["count"] == 0


def uncapped(folder: Path) -> str:
    """Write the default rubric without its caps, which would lower some marks of a judge that is all bias."""
    source = (ROOT / "harness/judging/rubrics/writing.md").read_text("utf-8")
    (folder / "uncapped.md").write_text(re.sub(r"^caps:\n(  .*\n)+", "", source, flags=re.MULTILINE))
    return str(folder / "uncapped.md")


def test_a_judge_that_names_whoever_is_first_is_found_out(harness: Harness, tmp_path: Path):
    done, _ = calibrate(harness, lambda _: Say(verdict(8, 4)), "--rubric", uncapped(tmp_path))
    assert done.code == 0, done.err
    assert "right, both orders together: 0 % of 28 pairs" in done.out
    assert "4 pairs of equal texts are judged once, and right where that verdict calls a tie" in done.out
    assert "flips: 100 % of 24 pairs" in done.out
    assert "first shown wins: 100 % of 48 decided verdicts" in done.out
    assert "it favours the side shown first" in done.out
    assert "standing first is worth +4.00 points (standard error 0.00)" in done.out
    assert not (tmp_path / "runs").exists()


def test_a_biased_judge_with_real_preferences_is_right_over_both_orders_and_its_bias_is_told(
    harness: Harness, tmp_path: Path
):
    good = better_answers()
    judge = marking(lambda text: 6 if text in good else 5, bias=2)
    done, _ = calibrate(harness, judge, "--json", "--rubric", uncapped(tmp_path))
    decided = {name: c for name, c in done.json["classes"].items() if name != "identical"}
    assert all(c["right"] == 4 for c in decided.values())
    assert all(c["single_verdicts"]["share"] == 0.5 for c in decided.values())
    assert done.json["first_side"]["points"] == 2


def test_a_judge_that_obeys_orders_in_an_answer_is_wrong_on_that_class(harness: Harness):
    good = better_answers()
    ordered = {p.sides[0 if p.label == "b" else 1].answer for p in bundled_pairs() if p.kind == "injected"}
    done, _ = calibrate(harness, marking(lambda text: 10 if text in ordered else 9 if text in good else 3))
    assert "wrong on: injected (4 of 4)" in done.out


def test_own_pairs_give_accuracy_kappa_and_classes(harness: Harness, tmp_path: Path):
    path = pairs_file(
        tmp_path,
        {"query": "q1", "a": "9 good", "b": "1 bad", "label": "a"},
        {
            "query": "q2",
            "a": "2 bad",
            "b": {"answer": "8 good", "path": "Step 1 (tool)"},
            "label": "b",
            "class": "mine",
        },
        {"query": "q3", "a": "5 same", "b": "5 alike", "label": "tie"},
        {"query": "q4", "a": "7 yes", "b": "3 no", "label": "b", "extra": 1},
    )
    done, endpoint = calibrate(harness, marking(lambda text: int(text[0])), "--pairs", path, "--json")
    assert done.code == 0, done.err
    assert len(endpoint.of_judge) == 8
    assert (done.json["accuracy"]["count"], done.json["accuracy"]["of"]) == (3, 4)
    assert done.json["kappa"] == pytest.approx((3 / 4 - 5 / 16) / (1 - 5 / 16))
    assert set(done.json["classes"]) == {"label a", "mine", "label tie", "label b"}
    assert [t["said"] for t in done.json["trials"]] == ["a", "b", "tie", "a"]
    assert any("Step 1 (tool)" in r.user for r in endpoint.of_judge)


def test_long_lines_wrap_between_words_at_the_width_of_the_terminal(harness: Harness, tmp_path: Path):
    path = pairs_file(tmp_path, {"query": "q", "a": "9", "b": "1", "label": "b"})
    judge = marking(int)
    whole, _ = calibrate(harness, judge, "--pairs", path)
    narrow, _ = calibrate(harness, judge, "--pairs", path, env={"COLUMNS": "60"})
    assert max(map(len, whole.out.splitlines())) > 80
    assert max(map(len, narrow.out.splitlines())) <= 60
    outs = (re.sub(r"a\s+verdict:\s+\S+\s+s,", "", done.out) for done in (whole, narrow))  # how long it took differs
    words, narrow_words = (out.partition("right, both")[2].split() for out in outs)
    assert narrow_words == words


def test_failed_verdicts_are_counted_and_never_taken_for_a_tie(harness: Harness, tmp_path: Path):
    path = pairs_file(tmp_path, *({"query": q, "a": "9", "b": "1", "label": "tie"} for q in ("fine", "broken")))

    def judge(seen: Seen) -> Say:
        return Say("no JSON") if "broken" in block(seen.user, "QUERY") else Say(verdict(5, 5))

    done, _ = calibrate(harness, judge, "--pairs", path, "--json")
    assert done.code == 1
    assert (done.json["accuracy"]["count"], done.json["accuracy"]["of"]) == (1, 1)
    assert done.json["classes"]["label tie"]["failed"] == 1
    assert [t["said"] for t in done.json["trials"]] == ["tie", None]
    none, _ = calibrate(harness, lambda _: Say("no JSON"), "--pairs", path)
    assert none.code == 3
    assert "no pair could be judged" in none.out


def test_a_refused_key_ends_it_with_one_line(harness: Harness):
    env = {"HARNESS_JUDGE_API_KEY": KEY}
    done, endpoint = calibrate(harness, lambda _: Refuse(401, f"bad key {KEY}", "invalid_api_key"), env=env)
    assert (done.code, done.out) == (2, "")
    assert "error: " in done.err
    assert KEY[:8] not in done.err
    assert len(endpoint.requests) == 1


def test_a_judge_that_cannot_be_reached_ends_it_with_one_line_as_in_a_run(harness: Harness):
    with FakeEndpoint().serving() as endpoint:
        address = endpoint.base_url
    done = harness("doctor", "--judge", "--judge-model", "j", "--judge-base-url", address)
    assert (done.code, done.out) == (2, "")
    assert "error: cannot reach 127.0.0.1" in done.err
    assert "is the server up? The address comes from --judge-base-url\n" in done.err


def test_no_table_is_printed_where_no_verdict_was_had(harness: Harness):
    done, _ = calibrate(harness, lambda _: Refuse(503, "down"), "--give-up", "0.5")
    assert done.code == 3
    assert "no pair could be judged" in done.out
    assert "gave no reply for 0.5 s (--give-up)" in done.err
    assert not any(name in done.out for name in CLASSES)


def test_the_embedded_judge_can_be_calibrated_and_is_called_a_self_test(harness: Harness):
    done = harness("doctor", "--judge")
    assert done.code == 0, done.err
    assert "SELF-TEST" in done.err
    assert "right, both orders together" in done.out
    assert all(name in done.out for name in CLASSES)


def test_a_file_without_pairs_or_a_judge_that_is_not_there_is_a_usage_error(harness: Harness, tmp_path: Path):
    (tmp_path / "empty.jsonl").write_text("\n")
    done = harness("doctor", "--judge", "--pairs", "empty.jsonl")
    assert (done.code, done.out) == (2, "")
    assert "there is no pair in it" in done.err
    done = harness("doctor", "--judge", "--judge-model", "gpt-5")
    assert (done.code, done.out) == (2, "")
    assert "there is no judge" in done.err
