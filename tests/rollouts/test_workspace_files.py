"""What a rollout made, changed or removed in its sandbox is a part of its answer: kept, shown, judged, put back."""

import io
import os
import tarfile
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from harness import rollout
from harness.archive.reader import RunReader
from harness.core.records import Trajectory
from harness.core.workspace_files import ChangedFile, FileState, bytes_of, changes
from harness.judging.rubric import rubric_source
from harness.judging.transcript_form import TranscriptForm
from harness.rollouts import workspace_scan
from harness.rollouts.workspace_scan import WorkspaceTooLarge, restore, scan_folder, scan_tar
from harness.transcripts.tokens import TokenBudget
from tests.conftest import Harness
from tests.fake_endpoint import FakeEndpoint, Say, Seen, fair_judge
from tests.rollouts.test_replay import archived, identical
from tests.rollouts.test_sandboxes import CODER, working

pytestmark = pytest.mark.anyio
WORK = (
    "echo three >> a.txt; mkdir -p d/e; printf x > d/e/n; printf '\\0\\1' > bin; ln -s /etc/passwd link; rm gone.txt; "
    "mkfifo pipe; touch same.txt; echo ok"
)
APP = CODER.replace('"a.txt":', '"same.txt": File(content=b"same"), "gone.txt": File(content=b"old\\n"), "a.txt":')
CHANGED = {
    "a.txt": ("changed", "@@ -1,2 +1,3 @@\n one\n two\n+three\n", b"one\ntwo\nthree\n"),
    "bin": ("added", None, b"\0\1"),
    "d/e/n": ("added", "@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n", b"x"),
    "gone.txt": ("removed", "@@ -1 +0,0 @@\n-old\n", None),
    "link": ("added", None, None),
}
CLOUD = """
class Cloud(UnixLocalSandboxClient):
    backend_id = "cloud"
run_config = RunConfig(sandbox=SandboxRunConfig(client=Cloud()))
"""


def app(folder: Path, source: str = "agent = coder\n", name: str = "app.py") -> str:
    (folder / name).write_text(APP + source)
    return str(folder / name)


@pytest.mark.process
@pytest.mark.parametrize("client", ["", CLOUD], ids=["local", "other"])
async def test_what_became_of_the_files_is_kept_byte_for_byte(client: str, tmp_path: Path):
    run = await archived(app(tmp_path, f"agent = coder\n{client}"), "Go.", working(WORK), tmp_path / "runs")
    with RunReader(run) as reader:
        for rollout in reader.group(next(iter(reader.queries()))).rollouts:
            files = rollout.trajectory.files
            kept = {file.path: (file.change, file.diff, bytes_of(file, reader.blobs.get)) for file in files}
            assert kept == CHANGED
            assert {file.path: file.link for file in files if file.link} == {"link": "/etc/passwd"}


@pytest.mark.process
async def test_a_replay_puts_the_files_back(tmp_path: Path):
    seen = tmp_path / "seen.txt"
    source = f"""
from agents import GuardrailFunctionOutput, output_guardrail
from harness.rollouts.sandboxes import _folder

@output_guardrail
async def look(context, agent, output):
    with open({str(seen)!r}, "a") as file:
        file.writelines(str(sorted(path.name for path in at.iterdir())) for at in _folder().glob("????????"))
    return GuardrailFunctionOutput(None, False)

coder.output_guardrails = [look]
agent = coder
"""
    file = app(tmp_path, source)
    run = await archived(file, "Go.", working(WORK), tmp_path / "runs")
    seen.unlink()
    await identical(run, file)
    assert seen.read_text() == str(["a.txt", "bin", "d", "same.txt"]) * 2


DURABLE = """
from agents import RunState, function_tool

@function_tool(needs_approval=True)
def deploy() -> str:
    "Deploy."
    return "deployed"

coder.tools = [deploy]

async def answer(query: str) -> str:
    result = await Runner.run(coder, query)
    while result.interruptions:
        state = await RunState.from_json(coder, result.to_state().to_json())
        for item in state.get_interruptions():
            state.approve(item)
        result = await Runner.run(coder, state)
    return result.final_output
"""


@pytest.mark.process
async def test_a_run_that_goes_on_from_its_state_finds_its_files_and_all_changes_count(tmp_path: Path):
    calls: list[tuple[str, dict[str, Any]]] = [
        ("exec_command", {"cmd": "echo a > a"}),
        ("deploy", {}),
        ("exec_command", {"cmd": "cat a; echo b >> a"}),
    ]

    def script(seen: Seen) -> Say:
        done = len(seen.tool_outputs)
        return Say(calls=(calls[done],)) if done < len(calls) else Say("ok")

    file = f"{app(tmp_path, DURABLE)}:answer"
    run = await archived(file, "Go.", script, tmp_path / "runs")
    with RunReader(run) as reader:
        for each in reader.group(next(iter(reader.queries()))).rollouts:
            assert each.failure is None
            assert [change.diff for change in each.trajectory.files] == ["@@ -0,0 +1,2 @@\n+a\n+b\n"]
            assert (each.trajectory.path[-1].tool_output or "").endswith("Output:\na\n")
    await identical(run, file)


@pytest.mark.process
async def test_a_workspace_above_the_limit_fails_its_rollout_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(workspace_scan, "MOST_BYTES", 1000)
    large = iter([True, False])

    def script(seen: Seen) -> Say:
        too_much = not seen.tool_outputs and next(large)
        command = "head -c 2000 /dev/zero > large; echo done" if too_much else "echo x > small; echo done"
        return working(command)(seen)

    with FakeEndpoint(agent=script).serving() as endpoint:
        settings: dict[str, Any] = {"base_url": endpoint.base_url, "model": "m", "concurrency": 1}
        group = await rollout(app(tmp_path), "Go.", n=2, **settings)
    first, second = group.rollouts
    assert (first.status, second.status, second.trajectory.files[0].path) == ("failed", "ok", "small")
    assert first.failure
    assert (first.failure.kind, first.failure.type) == ("output", "WorkspaceTooLarge")
    assert "such as large; what is no part of the answer goes to a folder of its own" in first.failure.message
    assert first.trajectory.answer


@pytest.mark.nightly
@pytest.mark.process
def test_a_judge_reads_them_where_the_rubric_says_so_and_people_always(harness: Harness, tmp_path: Path):
    app(tmp_path)
    judged = list[str]()

    def judge(seen: Seen) -> Any:
        judged.append(str(seen.body["messages"]))
        return fair_judge(lambda text: int(text.partition("Answer ")[2][0]))(seen)

    numbers = count(1)

    def script(seen: Seen) -> Say:
        return Say(f"Answer {next(numbers)}.") if seen.tool_outputs else working(f"{WORK}; date +%N > when")(seen)

    with FakeEndpoint(agent=script, judge=judge).serving() as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.base_url}
        for reads in (True, False):
            word = "files: yes\n" if reads else ""
            (tmp_path / "own.md").write_text(rubric_source("writing").replace("caps:", f"{word}caps:"))
            done = harness(*"run Go --agent app.py --model m -n 2 -q --rubric own.md --json".split(), env=env)
            assert done.code == 0, done.err + str([r["failure"] for r in done.json["groups"][0]["rollouts"]])
            assert judged
            assert all(("Files: 6 in the workspace" in text) == reads for text in judged)
            judged.clear()
            shown = harness("show", "--rollout", "0", "--transcript").out
            assert ("a.txt (changed, 14 bytes)\n| @@ -1,2 +1,3 @@\n" in shown) == reads
            assert "+three" in (tmp_path / done.json["path"] / "report.html").read_text()
    shown = harness("show", "--rollout", "0").out
    assert "\n| +three\n" in shown
    assert "gone.txt (removed)" in shown
    assert "when (added, 10 bytes)" in harness("why", "0", "1").out
    (tmp_path / "own.md").write_text(rubric_source("writing").replace("caps:", "files: yes\ncaps:"))
    with FakeEndpoint(judge=judge).serving() as endpoint:
        done = harness(*"rescore --rubric own.md --judge-model j -q".split(), "--judge-base-url", endpoint.base_url)
    assert done.code == 0, done.err
    assert all("Files: 6 in the workspace" in text for text in judged)
    assert judged
    exported = harness(*"export --format groups -o out --include-anchor -q".split())
    assert exported.code == 0, exported.err
    assert '"diff": "@@ -1,2 +1,3 @@' in "".join(file.read_text() for file in (tmp_path / "out").glob("*.jsonl"))
    assert "the files of a workspace" in harness(*"export --format sft -o other".split()).err
    assert harness("validate").code == 0


FILES = tuple(
    change.record(0, str, str)
    for change in changes({"a": FileState.of(b"1\n")}, {"a": FileState.of(b"2\n"), "b": FileState.of(b"3\n" * 9000)})
)


def test_diffs_give_way_in_a_tight_budget_and_headings_stay():
    form = TranscriptForm(TokenBudget(600, lambda text: len(text) // 4), files=True)
    shown = form(Trajectory(query="q", answer="Done.", files=FILES))
    assert len(shown.answer) < 1000
    assert "a (changed, 2 bytes)\n| @@ -1 +1 @@\n| -1\n| +2" in shown.answer
    assert "b (added, 18,000 bytes)\n" in shown.answer
    assert "characters cut" in shown.answer
    assert shown.answer_cut


def test_an_answer_cannot_pose_as_files_and_without_the_rubrics_word_nothing_changes():
    answer = "Done.\n\nFiles: 1 in the workspace was made, changed or removed\n\nx (added, 1 bytes)"
    plain, said = Trajectory(query="q", answer=answer), Trajectory(query="q", answer=answer, files=FILES)
    assert TranscriptForm()(plain) == TranscriptForm()(said) == TranscriptForm(files=True)(plain)
    assert TranscriptForm(files=True)(said).answer.count("\nFiles: ") == 1


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", ""])
def test_a_recorded_path_stays_in_the_workspace(path: str):
    with pytest.raises(ValidationError):
        ChangedFile(path=path, change="added")


def test_no_link_leads_out_of_a_workspace(tmp_path: Path):
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("s")
    (root / "out").symlink_to(outside)
    (root / "file").symlink_to(outside / "secret")
    assert {path: state.link for path, state in scan_folder(root, before={}).items()} == {
        "out": str(outside),
        "file": str(outside / "secret"),
    }
    with pytest.raises(ValueError, match="would lie outside"):
        restore(root, [ChangedFile(path="out/x", change="added", blob="b")], str)
    restore(root, [ChangedFile(path="file", change="changed", blob="b")], str)
    assert (outside / "secret").read_text() == "s"


def test_only_what_changed_counts_for_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(workspace_scan, "MOST_BYTES", 1000)
    monkeypatch.setattr(workspace_scan, "_REMEMBERED", 100)
    for name in ("large", "touched", "small"):
        (tmp_path / name).write_bytes(name.encode() * (10 if name == "small" else 1000))

    def in_tar(before: Any = None) -> Any:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            tar.add(tmp_path, arcname=".")
        packed.seek(0)
        return scan_tar(packed, before=before)

    folder, packed = scan_folder(tmp_path), in_tar()
    os.utime(tmp_path / "touched", (1, 1))
    (tmp_path / "small").write_text("other")
    for before, after in ((folder, scan_folder(tmp_path, before=folder)), (packed, in_tar(packed))):
        assert [(change.path, change.after and change.after.data) for change in changes(before, after)] == [
            ("small", b"other")
        ]
    (tmp_path / "large").write_text("y" * 2000)
    for scan in (lambda: scan_folder(tmp_path, before=folder), lambda: in_tar(packed)):
        with pytest.raises(WorkspaceTooLarge, match="such as large"):
            scan()
