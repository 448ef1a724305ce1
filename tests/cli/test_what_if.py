"""What a free rescoring, a pattern or one damaged run must not do to the runs around them."""

from pathlib import Path

import pytest

from tests.conftest import Harness

RUN = ("run", "--offline", "-n", "4", "-q", "--estimator", "tiers")


def test_resume_does_not_buy_what_free_left_unbought(harness: Harness):
    assert harness(*RUN).code == 0
    free = harness("rescore", "--topology", "round_robin", "--free")
    assert free.code == 3
    assert "not bought, so nothing is ranked" in free.out
    assert "` with the same options, but without --free, buys the rest" in free.out
    assert "failed" not in free.out
    assert "an earlier one: --ranking" in free.out
    again = harness("resume")
    assert (again.code, "nothing to do" in again.out) == (0, True)


@pytest.mark.nightly
def test_a_run_under_a_pattern_that_fits_any_hash_is_finished_when_it_is_and_reuses_its_verdicts(harness: Harness):
    for judge in ("pairwise", "ruler"):
        done = harness(*RUN, "Describe Lisp.", "--redact", r"\d+", "--judge", judge, "--json")
        assert done.code == 0, done.err
        again = harness("resume", done.json["run"])
        assert "is finished" in again.out
        free = harness("rescore", done.json["run"], "--free", "--json")
        assert free.json["groups"][0]["status"] == "complete"
        assert free.json["groups"][0]["judged"] == 0


def test_one_damaged_run_does_not_hide_the_others(harness: Harness, tmp_path: Path):
    runs = [harness(*RUN, "--json").json for _ in range(2)]
    (path,) = (tmp_path / runs[0]["path"] / "rollouts").glob("*.jsonl")
    path.write_bytes(path.read_bytes().replace(b'"answer"', b'"Answer"', 1))
    listed = harness("ls")
    assert listed.code == 0, listed.err
    of_runs, cannot_be_read = listed.out.split("cannot be read")
    assert (runs[1]["run"] in of_runs, runs[0]["run"] in of_runs) == (True, False)
    assert runs[0]["run"] in cannot_be_read
    assert "the checksum does not match" in " ".join(cannot_be_read.split())


def test_a_broken_run_json_says_what_is_wrong_with_it_and_that_it_cannot_be_made_anew(harness: Harness, tmp_path: Path):
    folder = tmp_path / harness(*RUN, "--json").json["path"]
    (folder / "run.json").write_text("{")
    shown = harness("show", str(folder))
    assert shown.code == 5
    assert "Invalid JSON" in shown.err
    assert "restore it from a copy" in shown.err
    assert "_Versioned" not in shown.err


def test_of_many_queries_each_is_named_and_the_next_command_can_be_typed(harness: Harness, tmp_path: Path):
    (tmp_path / "q.txt").write_text("Why Lisp?\nWhy Scheme?\nWhy ML?\nWhy C?\n")
    assert harness(*RUN, "--queries", "q.txt").code == 0
    done = harness("rescore", "--estimator", "bt")
    assert done.code == 0, done.err
    assert all(query in done.out for query in ("Why Lisp?", "Why Scheme?", "Why ML?", "Why C?"))
    (line,) = (line for line in done.out.splitlines() if line.startswith("next: ") and " show " in line)
    _, typed = line.split(" harness ")
    assert harness(*typed.split()).code == 0
    unknown = harness("show", "--query", "zzz")
    assert (unknown.code, "there are: q" in unknown.err) == (2, True)


def test_an_imported_run_is_not_sent_to_resume(harness: Harness, tmp_path: Path):
    chat = '{"query": "Q", "messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A%d"}]}'
    (tmp_path / "chat.jsonl").write_text("\n".join(chat % i for i in range(2)))
    assert harness("import", "chat.jsonl").code == 0
    shown = harness("show")
    assert shown.code == 0
    assert "next: harness rescore" in shown.out
    assert "resume" not in shown.out
