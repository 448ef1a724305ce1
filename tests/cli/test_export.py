"""`harness export`: ranked runs become files that are whole, with a card that says what went in and what did not."""

import csv
import fcntl
import json
import resource
import shutil
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml

import harness as arena
from harness.core.errors import CannotWrite, NothingRankable, UsageError
from harness.pipeline.exporting import export as exporting
from tests.cli.conftest import Command, number
from tests.nursery import clean_environment


def lines_of(path: str) -> list[Any]:
    return [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]


def head_of(folder: str) -> Any:
    return yaml.safe_load(Path(folder, "README.md").read_text("utf-8").split("---")[1])


def test_groups_hold_every_sequence_with_parallel_calls_nested_agents_and_handoffs(command: Command):
    command("run Why? --agent agent.py:agent -n 4 --model m --judge-model j --concurrency 1 -q")
    out = command("export --format groups -o out --json")
    assert json.loads(out)["files"][0]["lines"] == 1
    (group,) = lines_of("out/train.jsonl")
    assert set(group) == {"query_id", "signal", "judge", "rollouts"}
    assert [r["role"] for r in group["rollouts"]] == ["sample"] * 3  # the anchor is off-policy
    assert sum(r["advantage"] for r in group["rollouts"]) == pytest.approx(0)
    for rollout in group["rollouts"]:
        assert set(rollout) == {"index", "role", "reward", "advantage", "uncertainty", "sequences"}
        assert [s["agent"] for s in rollout["sequences"]] == ["first", "inner", "other"]
        first, inner, other = rollout["sequences"]
        assert [len(m.get("tool_calls", ())) for m in first["messages"]] == [0, 0, 3, 0, 0, 0, 1]
        assert first["message_mask"] == [0, 0, 1, 0, 0, 0, 1]
        assert isinstance(first["messages"][2]["tool_calls"][0]["function"]["arguments"], str)
        assert [t["function"]["name"] for t in first["tools"]] == ["look_up", "ask", "transfer_to_other"]
        assert inner["message_mask"] == [0, 0, 1]
        assert sum(other["message_mask"]) == 1
        assert all(len(s["message_mask"]) == len(s["messages"]) for s in rollout["sequences"])
    (with_anchor,) = lines_of_anchor(command)
    assert [r["role"] for r in with_anchor["rollouts"]] == ["anchor", *["sample"] * 3]


def lines_of_anchor(command: Command) -> list[Any]:
    command("export --format groups -o anchored --include-anchor -q")
    return lines_of("anchored/train.jsonl")


def test_pairs_for_trl_and_for_openai_prefer_what_the_judge_preferred_in_both_orders(plain: Command):
    plain("export --format dpo -o dpo")
    for line in lines_of("dpo/train.jsonl"):
        assert [m["role"] for m in line["prompt"]] == ["system", "user"]
        ((better,), (worse,)) = line["chosen"], line["rejected"]
        assert number(better["content"]) % 10 > number(worse["content"]) % 10
    plain("export --format openai-preference --pairs all -o openai")
    lines = lines_of("openai/train.jsonl")
    assert {tuple(line) for line in lines} == {("input", "preferred_output", "non_preferred_output")}
    assert len(lines) == len({json.dumps(line) for line in lines}) > 10
    plain("export --format openai-preference -o few")
    assert "note: train.jsonl: 3 lines; OpenAI takes files of at least 10" in plain.err  # pyright: ignore[reportFunctionMemberAccess]
    assert "at least 10" in Path("few/README.md").read_text("utf-8")


def test_the_best_of_each_query_for_trl_and_for_openai(plain: Command):
    plain("export --format sft -o trl")
    assert {tuple(line) for line in lines_of("trl/train.jsonl")} == {("messages",)}
    plain("export --format sft --style openai -o openai")
    assert [line["messages"][-1]["weight"] for line in lines_of("openai/train.jsonl")] == [1] * 3
    plain("export --format sft --style trl-turns -o turns")
    assert {tuple(line) for line in lines_of("turns/train.jsonl")} == {("prompt", "completion")}


def test_a_table_of_all_rollouts(plain: Command):
    plain("export --format csv -o out")
    with Path("out/train.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 12
    assert {row["status"] for row in rows} == {"ok"}
    assert {float(row["rank"]) for row in rows} <= {0, 0.5, 1, 1.5, 2, 2.5, 3}


def test_the_card_says_what_datasets_needs_and_where_each_line_comes_from(plain: Command):
    plain("export --format groups -o out --split train=0.5,test=0.5")
    files = {entry["path"]: entry["split"] for entry in head_of("out")["configs"][0]["data_files"]}
    assert set(files) <= {"train.jsonl", "test.jsonl"}
    by_query = {line["query_id"]: path for path in files for line in lines_of(f"out/{path}")}
    sources = lines_of("out/sources.jsonl")
    assert {s["query"]: s["file"] for s in sources} == by_query
    assert all(len(s["records"]) == 64 and s["rollouts"] == [1, 2, 3] for s in sources)
    card = Path("out/README.md").read_text("utf-8")
    marks = ("Tokens: none are recorded", "Changed with order", "the anchor: it was sampled", "judge: j", "rubric: ")
    for part in marks:
        assert part in card
    before = {path: Path("out", path).read_bytes() for path in [*files, "sources.jsonl", "README.md"]}
    plain("export --format groups -o again --split train=0.5,test=0.5")
    assert {path: Path("again", path).read_bytes() for path in before} == before


def test_several_runs_go_into_one_export_each_once(plain: Command):
    plain("run --agent plain.py:agent --queries q.txt -n 3 --model m --judge-model j -q")
    both = [path.name for path in Path("runs").iterdir()]
    plain(f"export {' '.join(both)} {both[0]} --format csv -o out")
    with Path("out/train.csv").open(encoding="utf-8", newline="") as file:
        assert len({row["run"] for row in csv.DictReader(file)}) == 2
    with pytest.raises(UsageError, match="one run"):
        plain(f"export {both[0]} {both[1]} --ranking x --format sft -o more")


def test_a_line_is_written_once(plain: Command):
    (run,) = Path("runs").iterdir()
    shutil.copytree(run, f"copies/{run.name}")
    out = json.loads(plain(f"export {run} copies/{run.name} --format dpo -o out --json"))
    assert [file["lines"] for file in out["files"]] == [3]
    assert {"what": "line", "why": "the same as a line before", "count": 3} in out["left_out"]


def test_bad_input_has_its_exit_code_and_leaves_no_folder(command: Command):
    command("run Why? --agent plain.py:agent -n 2 --model m --topology none -q")
    with pytest.raises(NothingRankable, match=r"was not judged .*; judge it with .*rescore .* --topology arena"):
        command("export --format sft -o out")
    command("run Why? --offline -n 2 -q")
    with pytest.raises(UsageError, match="--allow-offline"):
        command("export --format groups -o out")
    for wrong, message in {
        "--format sft --pairs all": "--pairs is for --format dpo or openai-preference, not for sft",
        "--format csv --no-weak": "--no-weak is for",
        "--format dpo --style openai": "--style is for",
        "--format sft --split a=2": "--split",
    }.items():
        with pytest.raises(UsageError, match=message):
            command(f"export -o out --allow-offline {wrong}")
    assert not Path("out").exists()


def test_where_nothing_is_left_the_table_is_printed_and_nothing_is_written(
    plain: Command, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(NothingRankable, match="nothing is left to export as dpo"):
        plain("export --format dpo -o out --least-margin 100 -q")
    assert "left out: 3 pairs: a margin below 100" in capsys.readouterr().err
    assert not Path("out").exists()


def test_a_folder_that_holds_files_is_written_to_by_force_only(plain: Command):
    plain("export --format sft -o out")
    before = Path("out/train.jsonl").read_bytes()
    with pytest.raises(UsageError, match="--force"):
        plain("export --format dpo -o out")
    assert Path("out/train.jsonl").read_bytes() == before
    plain("export --format dpo -o out --force")
    assert "chosen" in Path("out/train.jsonl").read_text("utf-8")


@pytest.mark.parametrize("fault", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_what_stops_an_export_leaves_what_was_there_and_no_half_file(
    plain: Command, monkeypatch: pytest.MonkeyPatch, fault: Any
):
    plain("export --format sft -o out")
    before = {path.name: path.read_bytes() for path in Path("out").iterdir()}
    written = exporting.ExportFiles.write
    calls = count()

    def failing(self: Any, name: str, text: str) -> int:
        if next(calls) == 3:
            raise fault
        return written(self, name, text)

    monkeypatch.setattr(exporting.ExportFiles, "write", failing)
    with pytest.raises((Exception, KeyboardInterrupt)):
        plain("export --format dpo -o out --force")
    assert {path.name: path.read_bytes() for path in Path("out").iterdir()} == before
    calls = count()
    with pytest.raises((Exception, KeyboardInterrupt)):
        plain("export --format dpo -o new")
    assert not Path("new").exists()


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", ["groups", "sft", "csv", "parquet"])
def test_a_full_disk_is_one_error_and_leaves_no_file(plain: Command, kind: str):
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    plain(f"export --format {kind} -o whole")
    largest = max(path.stat().st_size for path in Path("whole").iterdir())
    for room in (0, 1, largest // 3, largest - 1):
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))  # a file that grows beyond it is refused
        try:
            with pytest.raises(CannotWrite, match=r"cannot write out\S*: File too large"):
                plain(f"export --format {kind} -o out")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        assert not Path("out").exists()


def test_files_that_a_killed_export_left_are_removed_and_those_that_are_being_written_are_kept(plain: Command):
    Path("out").mkdir()
    left = Path("out/.train.jsonl.0123abcd.part")
    left.write_text("half a li")
    with left.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as an export does that is under way
        with pytest.raises(UsageError, match="--force"):
            plain("export --format sft -o out")
    assert left.exists()
    plain("export --format sft -o out")
    assert {path.name for path in Path("out").iterdir()} == {"train.jsonl", "sources.jsonl", "README.md"}


@pytest.mark.nightly
@pytest.mark.process
def test_ctrl_c_ends_an_export_with_130_and_leaves_no_file(plain: Command):
    interrupted = """
import os, runpy, signal, sys
from harness.pipeline.exporting.files import ExportFiles
written = ExportFiles.write

def write(self, name, text):
    if (line := written(self, name, text)) == 2:
        os.kill(os.getpid(), signal.SIGINT)
    return line

signal.signal(signal.SIGINT, signal.default_int_handler)
ExportFiles.write = write
sys.argv = "harness export --format csv -o out".split()
runpy.run_module("harness", run_name="__main__")
"""
    command = [sys.executable, "-c", interrupted]
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr
    assert not Path("out").exists()


def test_runs_imported_without_messages_say_that_their_calls_are_not_recorded(
    command: Command, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("harness.formats.atif.turns_of_atif", lambda _: ())  # as an earlier version read it
    answers = ["Because.", "Rayleigh scattering makes the sky blue.", "The sky is blue as short waves scatter more."]
    asked = {"source": "user", "message": "Why is the sky blue?"}
    said = [{"source": "agent", "message": answer, "llm_call_count": 0} for answer in answers]
    rows = [{"schema_version": "ATIF-v1.8", "steps": [asked, step]} for step in said]
    Path("made.jsonl").write_text("\n".join(map(json.dumps, rows)))
    command("import made.jsonl")
    with pytest.raises(NothingRankable, match=r"no ranking to export; make one with .*rescore"):
        command("export --format sft -o out")
    command("rescore --judge-model offline-features -q")
    with pytest.raises(NothingRankable, match="nothing is left"):
        command("export --format sft -o out --allow-offline")
    assert "left out: 3 rollouts: imported: no calls are recorded" in capsys.readouterr().err
    command("export --format csv -o out --allow-offline")
    assert len(Path("out/train.csv").read_text("utf-8").splitlines()) == 4


def test_trajectories_for_harbor_need_no_ranking_and_hold_the_reward_of_one(command: Command):
    command("run Why? --agent plain.py:agent -n 2 --model m --topology none -q")
    out = json.loads(command("export --format atif -o bare --json"))
    assert (out["files"][0]["lines"], out["runs"][0]["ranking"]) == (2, "none")
    bare = lines_of("bare/train.jsonl")
    assert [[step["source"] for step in line["steps"]] for line in bare] == [["system", "user", "agent"]] * 2
    assert all("reward" not in line["extra"] for line in bare)
    command("rescore --judge-model j --topology arena -q")
    command("export --format atif -o ranked")
    assert {line["extra"]["reward"] for line in lines_of("ranked/train.jsonl")} == {0.0, 1.0}
    command("run Why? --offline -n 2 -q")
    with pytest.raises(UsageError, match="--allow-offline"):
        command("export --format atif -o out")
    with pytest.raises(UsageError, match="--no-weak is for"):
        command("export --format atif -o out --no-weak --allow-offline")


def test_python_exports_what_the_command_exports(plain: Command):
    plain("export --format dpo -o out --pairs adjacent")
    rules = arena.ExportRules(format="dpo", pairs="adjacent")
    result = arena.export_run("last", "from-python", rules)
    assert [file.lines for file in result.files] == [len(lines_of("out/train.jsonl"))]
    for name in ("train.jsonl", "sources.jsonl", "README.md"):
        assert Path("from-python", name).read_bytes() == Path("out", name).read_bytes()
    assert arena.export_run("last", "none", arena.ExportRules(format="dpo", least_margin=99.0)).files == ()


@pytest.mark.few(1)
@pytest.mark.parametrize("reading", ["show", "stats", "export --format csv -o out"])
def test_a_newest_ranking_whose_header_was_cut_off_is_named_with_the_one_that_counts(plain: Any, reading: str):
    (folder,) = Path("runs").iterdir()
    (before,) = (folder / "rankings").iterdir()
    plain("rescore --estimator wins -q")
    (newest,) = {*(folder / "rankings").iterdir()} - {before}
    header = newest.read_bytes().splitlines()[0]
    for length in (0, len(header) // 2, len(header)):
        newest.write_bytes(header[:length])
        plain(reading)
        said = " ".join(plain.err.split())
        assert f"{newest.relative_to(Path())} was cut off before its header was whole" in said
        assert f"ranking {before.stem} counts in its place" in said
        shutil.rmtree("out", ignore_errors=True)
    plain(f"{reading} --ranking {before.stem}")
