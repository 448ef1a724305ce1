"""The pages of a large run, by real commands: which are written, what stderr says meanwhile, Ctrl-C, other commands."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from harness.archive.page_folder import page_name
from harness.archive.reader import RunReader
from harness.cli import piece_progress
from tests.fake_endpoint import FakeEndpoint, Reaction, Say, Seen, block, verdict
from tests.fuzz.attacks import Room
from tests.fuzz.attempts import Outcome, attempt

LATE = {3, 4, 5, 11, 12, 17, 20, 21, 28, 29}
"""The questions, neighbours among them, of which the judge has nothing to say at first."""
Desk = Callable[..., Outcome]


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    with FakeEndpoint(answer, judge).serving() as serving:
        yield serving


@pytest.fixture
def desk(endpoint: FakeEndpoint, tmp_path: Path) -> Desk:
    """Commands in a folder with an agent and a file of 30 queries."""
    room = Room.make(tmp_path / "room")
    (room.work / "q.txt").write_text("".join(f"Question {i}?\n" for i in range(30)))
    (room.work / "poet.py").write_text('from agents import Agent\nagent = Agent(name="poet", instructions="Answer.")\n')

    def command(line: str, code: int = 0) -> Outcome:
        around = room.environ({"OPENAI_BASE_URL": endpoint.base_url})
        outcome = attempt(line.split(), room.work, around, reachable=endpoint.host, piped=True)
        assert not outcome.faults(), outcome.err_text
        assert outcome.code == code, outcome.err_text
        return outcome

    return command


def answer(seen: Seen) -> Say:
    return Say(f"{seen.user} {'well ' * (seen.body['temperature'] > 0)}answered")


def judge(seen: Seen) -> Reaction:
    return Say(verdict(*(3 + 4 * ("well" in block(seen.user, f"ANSWER_{side}")) for side in "AB")))


def silent_on_some(seen: Seen) -> Reaction:
    question = int(block(seen.user, "ANSWER_A").split()[1].rstrip("?"))
    return Say("I will not judge.") if question in LATE else judge(seen)


def run_of(top: Path) -> Path:
    (run,) = (path.parent for path in top.rglob("report.html"))
    return run


def times(run: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (run / "report").iterdir()}


@pytest.mark.nightly
def test_a_rescore_that_changes_ten_groups_writes_their_ten_pages_and_the_index(
    desk: Desk, endpoint: FakeEndpoint, tmp_path: Path
) -> None:
    endpoint.judge = silent_on_some
    by_itself = "--estimator margins"  # else the judge is learnt from all groups, and each group's figures change
    desk(f"run --agent poet.py --model m --queries q.txt -n 2 --judge-model j {by_itself} --max-failures 99 -q")
    run = run_of(tmp_path)
    first, index = times(run), (run / "report.html").read_bytes()
    assert len(first) == 30
    endpoint.judge = judge
    desk("rescore")
    second = times(run)
    assert set(second) == set(first)
    with RunReader(run) as reader:
        late = {page_name(query.id) for number, query in enumerate(reader.queries()) if number in LATE}
    assert {name for name in first if first[name] != second[name]} == late
    assert (run / "report.html").read_bytes() != index


@pytest.mark.nightly
def test_commands_pass_over_the_pages_and_leave_them_where_they_are(desk: Desk, tmp_path: Path) -> None:
    desk("run --agent poet.py --model m --queries q.txt -n 2 --judge-model j -q")
    run = run_of(tmp_path)
    before = times(run)
    desk("run --agent poet.py --model m --queries q.txt -n 2 --topology none --judge-model j -q")
    for line in ("ls", f"validate {run}", f"show {run}", f"stats {run}", f"resume {run}"):
        assert "report/" not in desk(line).out_text
    for form in ("groups --include-anchor", "sft", "csv"):
        desk(f"export {run} --format {form} -o out-{form[:3]}")
        written = [path for path in (tmp_path / "room" / "work" / f"out-{form[:3]}").rglob("*") if path.is_file()]
        assert written
        assert not any(path.suffix == ".html" for path in written)
    desk(f"compare {run} last --judge-model j -q")
    assert times(run) == before


@pytest.fixture
def drawn_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing pages seems to take long at once."""
    monkeypatch.setattr(piece_progress, "LINE_EVERY_S", 0.0)


@pytest.mark.usefixtures("drawn_slowly")
def test_a_log_says_how_many_pages_are_drawn_and_with_q_it_does_not(desk: Desk) -> None:
    loud = desk("run --agent poet.py --offline --queries q.txt -n 2")
    assert "pages: 1 of 30\n" in loud.err_text
    assert "pages: 30 of 30\n" in loud.err_text
    assert "pages: 30 of 30\n" in desk("report").err_text
    assert "pages:" not in desk("rescore -q").err_text


def test_ctrl_c_while_pages_are_drawn_leaves_whole_ones_and_says_how_to_draw_the_rest(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(piece_progress, "shown_progress", lambda *_, **__: nullcontext(at_the_tenth))
        stopped = desk("run --agent poet.py --offline --queries q.txt -n 2", code=130)
    assert "SELF-TEST" in stopped.out_text, "the result stands there before the pages do"
    assert "harness report" in stopped.errors[0]
    (folder,) = tmp_path.rglob("report")
    pages = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert len(pages) == 10
    assert all(path.read_text("utf-8").rstrip().endswith("</html>") for path in pages)
    desk("report")
    assert len(list(folder.iterdir())) == 30
    assert {path: path.stat().st_mtime_ns for path in pages} == pages


def at_the_tenth(done: int, _: int) -> None:
    if done == 10:
        raise KeyboardInterrupt


@pytest.mark.nightly
def test_no_report_writes_no_page_and_says_what_does(desk: Desk, tmp_path: Path) -> None:
    made = desk("run --agent poet.py --offline --queries q.txt -n 2 --no-report")
    (run,) = {path.parent for path in tmp_path.rglob("run.json")}
    for printed in (made, desk("show")):
        assert "page: not written; `harness report " in printed.out_text
    assert not (run / "report.html").exists()
    assert not (run / "report").exists()
    desk("rescore --no-report")
    assert not (run / "report.html").exists()
    assert "/report.html\n" in desk("rescore").out_text
    assert len(list((run / "report").iterdir())) == 30
