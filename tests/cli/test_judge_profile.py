"""`--judge-profile`: what one run taught of a judge is the prior of the groups that it is lent to."""

import json
from pathlib import Path
from typing import Any

import pytest

import harness as arena
from harness.archive.reader import RunReader
from harness.cli.app import app
from harness.core.errors import UsageError
from harness.core.judge_profile import JudgeProfile, hash_of_judge, profile_in
from harness.report.summary.pooled_fit import pooled_fit
from harness.report.summary.why import find_pair, judged_ranking
from harness.transcripts.transcript import RENDERING
from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint, Say, Seen, block, verdict

LENT = "best --offline -n 4 --json -q Why?"


def numbers_judge(seen: Seen) -> Say:
    """Judge by the letters of an answer; each juror by another number."""
    salt = ord(str(seen.body["model"])[0])
    scores = [sum(map(ord, block(seen.user, f"ANSWER_{side}"))) * salt % 9 + 1 for side in "AB"]
    return Say(verdict(*scores))


@pytest.fixture
def taught(harness_once: Harness, tmp_path: Path) -> Path:
    """The file of a profile that a run of three queries taught."""
    lines = [
        json.dumps({"id": f"q{i}", "query": q}) for i, q in enumerate(("Why Lisp?", "Who made C?", "When Prolog?"))
    ]
    (tmp_path / "q.jsonl").write_text("\n".join(lines))
    assert harness_once(*"run --offline --queries q.jsonl -n 5 -q --estimator pooled".split()).code == 0
    done = harness_once("stats", "--profile", "profile.json")
    assert done.code == 0, done.err
    return tmp_path / "profile.json"


def best(query: str, **more: Any) -> arena.Best:
    return arena.best_of_sync("search", query, 4, offline=True, **more)


def figures(shown: Any) -> Any:
    return [(r["index"], r["rank"], r["score"], r["uncertainty"], r["p_best"]) for r in shown["groups"][0]["rollouts"]]


@pytest.mark.nightly
def test_a_run_and_the_file_of_its_profile_lend_best_the_same_and_all_of_it_is_recorded(
    harness: Harness, taught: Path, tmp_path: Path
):
    by_run = harness(*LENT.split(), "--judge-profile", "last")
    by_file = harness(*LENT.split(), "--judge-profile", taught.name)
    alone = harness(*LENT.split())
    assert (by_run.code, by_file.code) == (0, 0), by_file.err
    assert figures(by_run.json) == figures(by_file.json) != figures(alone.json)
    taught.unlink()  # the run holds the profile itself
    folder = tmp_path / by_file.json["path"]
    assert harness("validate", str(folder)).code == 0
    assert "nothing to do" in harness("resume", str(folder)).out
    with RunReader(folder) as reader:
        kept = profile_in(str(reader.ranking().head.settings["judge_profile"]), "kept")
        assert kept.groups == 3
        ranking = judged_ranking(reader)
        pair = find_pair(reader, ranking, next(iter(reader.queries())))
        assert pooled_fit(ranking, pair.ranking, pair.a, pair.b) is not None
    with RunReader(tmp_path / alone.json["path"]) as reader:
        assert "judge_profile" not in reader.info.settings


@pytest.mark.nightly
def test_python_functions_take_a_profile_at_hand_as_they_take_its_file(taught: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(taught.parent)
    profile = arena.JudgeProfile.model_validate_json(taught.read_text())
    lent = {word: best("When Prolog?", judge_profile=word) for word in (taught.name, profile)}
    by_file, at_hand = lent.values()
    assert at_hand.p_best == by_file.p_best != best("When Prolog?").p_best
    judged = arena.rescore_sync("last", free=True, estimator="pooled", judge_profile=profile)
    kept = judged.ranking().head.settings["judge_profile"]
    assert profile_in(str(kept), "kept") == profile
    other = profile.model_copy(update={"judge": "other@host", "judge_hash": hash_of_judge("other@host")})
    with pytest.raises(UsageError, match="does not fit: it is of the judge other@host, and this judge is offline"):
        best("When Prolog?", judge_profile=other)
    with pytest.raises(UsageError, match="judge_profile"):
        best("When Prolog?", judge_profile=3)


@pytest.mark.nightly
def test_a_ranking_without_the_profile_that_it_was_made_with_does_not_follow_from_its_matches(
    harness: Harness, taught: Path, tmp_path: Path
):
    lent = harness(*"rescore --free --estimator pooled --json --judge-profile".split(), taught.name)
    assert lent.code == 0, lent.err
    run = tmp_path / lent.json["path"]
    assert harness("validate", str(run)).code == 0
    plain = harness(*"rescore --free --estimator pooled --json".split())
    assert figures(plain.json) != figures(lent.json)  # a profile that is not named again is not lent again


def test_a_profile_of_another_judge_or_rubric_or_without_use_is_refused_naming_both(harness: Harness, taught: Path):
    record = json.loads(taught.read_text())
    for changes, words in (
        (
            {"judge": "other@host", "judge_hash": hash_of_judge("other@host")},
            "of the judge other@host, and this judge is offline",
        ),
        ({"rubric": "mine@1 0123456789ab"}, "by the rubric mine@1 0123456789ab, and this rubric is writing"),
        (
            {"rendering": RENDERING + 1},
            f"transcripts written in way {RENDERING + 1}, and these are written in way {RENDERING}",
        ),
    ):
        taught.write_text(json.dumps(record | changes))
        done = harness(*LENT.split(), "--judge-profile", taught.name)
        assert (done.code, words in done.err, done.err.count("\n")) == (2, True, 1), done.err
    for more in (["--judge", "ruler"], ["--estimator", "margins"]):
        done = harness(*"run --offline -n 3 -q Why? --judge-profile".split(), taught.name, *more)
        assert (done.code, "--judge-profile with --" in done.err) == (2, True), done.err
    assert "there already" in harness("stats", "--profile", taught.name).err


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is no JSON (line 1, column 1)"),
        ("[]", "it is no JSON object"),
        ("{}", "it has no judge"),
        ('{"record": 3}', "it is no JSON object"),
        ('{"judge": NaN}', "judge: input should be a valid string"),
        ('{"judge": ' + "9" * 5000 + "}", "digits"),
        ("[" * 100_000, "nested too deep"),
        ('{"judge": "\\ud800"}', ""),
    ],
)
def test_a_broken_or_hostile_profile_is_one_line_with_file_and_reason(text: str, reason: str):
    with pytest.raises(UsageError, match=r"^profile\.json: this is no judge's profile: ") as refused:
        profile_in(text, "profile.json")
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.few(1)
@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_profile_with_a_number_that_is_none_is_refused_and_the_number_is_named(taught: Path, word: str):
    record = json.loads(taught.read_text())
    record["parameters"]["level"] = 12345
    with pytest.raises(
        UsageError, match=r"^here: this is no judge's profile: parameters\.level: input should be a finite"
    ):
        profile_in(json.dumps(record).replace("12345", word), "here")


@pytest.mark.parametrize("wrong", [3, True, ["a"], {}, {"a": 1}, Path("profile.json")])
def test_what_is_no_profile_at_all_is_refused_in_python_with_what_to_give(wrong: Any):
    with pytest.raises(UsageError) as refused:
        best("Why?", judge_profile=wrong)
    assert str(refused.value) == f"judge_profile={wrong!r}: should be a text, RUN|FILE|KIND, or a JudgeProfile"
    with pytest.raises(UsageError) as refused:
        arena.rank_many([{(0, 1): (7.0, 5.0)}], profile=wrong)
    assert str(refused.value) == (f"profile={wrong!r}: expected a JudgeProfile, such as `run.judge_profiles()` gives")


def test_a_text_that_is_no_profile_is_refused_in_python_by_the_argument_s_name():
    with pytest.raises(UsageError, match=r"^judge_profile: this is no judge's profile: it has no judge$"):
        best("Why?", judge_profile="{}")


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"{" * 2_000_000, b"{}"])
def test_a_file_that_is_no_profile_costs_nothing_and_exits_2(harness: Harness, tmp_path: Path, content: bytes):
    (tmp_path / "p.json").write_bytes(content)
    done = harness(*LENT.split(), "--judge-profile", "p.json")
    assert (done.code, "p.json: " in done.err, done.err.count("\n")) == (2, True, 1), done.err
    assert not (tmp_path / "runs").exists()
    missing = harness(*LENT.split(), "--judge-profile", "nowhere.json")
    assert (missing.code, "--judge-profile nowhere.json: no file, and" in missing.err) == (2, True), missing.err


def test_a_word_that_an_archive_holds_in_the_place_of_a_profile_is_never_looked_up(
    harness: Harness, taught: Path, tmp_path: Path
):
    done = harness(*LENT.split(), "--judge-profile", taught.name)
    (ranking,) = (tmp_path / done.json["path"] / "rankings").glob("*.jsonl")
    profile = JudgeProfile.model_validate_json(taught.read_text())
    text = json.dumps(profile.model_dump_json())
    assert text in ranking.read_text()
    info = tmp_path / done.json["path"] / "run.json"
    info.write_text(info.read_text().replace(text, json.dumps(str(taught))))
    shown = harness("validate", str(info.parent))
    assert (shown.code, "is no judge's profile" in shown.out) == (5, True), shown.out


def test_a_kind_of_judge_is_lent_by_its_name_and_the_run_keeps_it(harness: Harness, tmp_path: Path):
    named, alone = (harness(*LENT.split(), *more) for more in (("--judge-profile", "sharp"), ()))
    assert (named.code, alone.code) == (0, 0), named.err
    assert figures(named.json) != figures(alone.json)
    with RunReader(tmp_path / named.json["path"]) as reader:
        kept = profile_in(str(reader.ranking().head.settings["judge_profile"]), "kept")
    assert kept.parameters.log_preference_noise == -0.7


def test_a_word_that_is_no_file_no_run_and_no_kind_is_refused_with_the_kinds(harness: Harness):
    refused = harness(*LENT.split(), "--judge-profile", "shrap")
    assert refused.code == 2
    assert "kinds of judges are sharp, usual, noisy, relative" in refused.err


@pytest.mark.nightly
def test_a_jury_takes_the_profile_of_a_run_that_the_same_jury_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    lines = (json.dumps({"query": query}) for query in ("Why Lisp?", "Who made C?", "When Prolog?"))
    Path("q.jsonl").write_text("\n".join(lines))
    with FakeEndpoint(judge=numbers_judge).serving() as endpoint:

        def shown(line: str) -> Any:
            environ = {"HARNESS_JUDGE_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "sk-test"}
            app.main([*line.split(), "-q", "--json"], standalone_mode=False, obj=environ)
            return json.loads(capsys.readouterr().out)

        jury = "--judge-model j --judge-model k --estimator pooled"
        taught = shown(f"run --offline --queries q.jsonl -n 4 {jury}")
        again = f"rescore {taught['run']} {jury} --topology anchor"
        lent = shown(f"{again} --judge-profile {taught['run']}")
        with RunReader(tmp_path / lent["path"]) as reader:
            head = reader.ranking().head
            kept = profile_in(str(head.settings["judge_profile"]), "kept")
            assert (kept.judge, kept.groups) == (head.judge["identity"], 3)
        assert figures(lent) != figures(shown(again))
        for refused, why in (
            (f"{again} --judge-model l --judge-profile {taught['run']}", "does not fit"),
            (f"{again} --judge-profile sharp", "a kind is of one judge"),
        ):
            with pytest.raises(UsageError, match=why):
                shown(refused)
