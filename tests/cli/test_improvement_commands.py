"""The commands that read the archive, on an improvement."""

import json
from pathlib import Path

import pytest

from harness.archive.improve_folder import ImproveFolder
from harness.archive.run_info import find_archived, find_run
from harness.archive.run_state import last_unfinished
from harness.core.comparisons import Interval
from harness.core.errors import UsageError
from harness.core.improvements import (
    CandidateStanding,
    ImproveInfo,
    Improvement,
    ImproveOutcome,
    ImproveRules,
    RoundResult,
)
from harness.core.records import Query
from harness.report.html.improvement_page import write_result
from tests.builders import AT
from tests.fake_endpoint import FakeEndpoint, Refuse
from tests.fuzz.attacks import Room
from tests.fuzz.attempts import Outcome, attempt
from tests.improving.world import World, write_files

ID = "20260721T140325-improve-poet-bbbbbb"
EVEN = Interval(value=0.5, low=0.4, high=0.6)


def an_improvement(runs_dir: Path, outcome: ImproveOutcome | None = "not better") -> Path:
    """Make an improvement of one round, which is finished where it has an outcome."""
    info = ImproveInfo(
        id=ID,
        created_at=AT,
        agent="poet",
        key="k",
        rules=ImproveRules(),
        root={"instructions": "Answer."},
        train=(Query(id="t", text="Train?"),),
        held_out=(Query(id="h", text="Held out?"),),
        split=False,
        judge="judge-model",
        rubric="writing",
        offline=True,
    )
    folder = ImproveFolder.make(runs_dir, info).path
    if outcome:
        root = CandidateStanding(number=0, round=0, parts=info.root, p_best=1.0, worth=EVEN)
        round_ = RoundResult(
            round=1, parent=0, best=0, worth=EVEN, matches=0, refused=("its instructions is empty",), spent=0.0
        )
        result = Improvement(
            improvement=ID,
            path=str(folder),
            offline=True,
            outcome=outcome,
            accepted=False,
            sentence="No change: none.",
            best=0,
            standings=(root,),
            rounds=(round_,),
            stopped="1 round played",
            gate_queries=1,
            spent=0.0,
            rollouts=0,
            verdicts=0,
            proposals=1,
            instructions="Answer.",
        )
        write_result(folder, result)
    return folder


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room.make(tmp_path / "room")


def done(room: Room, *argv: str) -> Outcome:
    return attempt(argv, room.work, room.environ())


def test_an_endpoint_that_is_given_up_is_another_end_than_a_candidate_that_is_not_accepted(room: Room) -> None:
    write_files(room.work)
    world = World()
    with FakeEndpoint(world.agent, lambda _: Refuse(503, "maintenance")).serving() as endpoint:
        words = "improve poet.py --queries train.txt --gate gate.txt --judge-model judge --give-up 0.2 --retries 0 -n 2"
        around = room.environ({"OPENAI_BASE_URL": endpoint.base_url})
        ended = attempt(words.split(), room.work, around, reachable=endpoint.host)
    assert ended.code == 6, ended.err_text
    assert "stopped before its end, which says nothing of the candidates: " in ended.err_text
    assert "resume" in ended.err_text


SECOND = (
    *("improve", "poet.py", "--queries", "train.txt", "--gate", "gate.txt", "--base-url", "http://localhost:1/v1"),
    *("--judge-model", "judge", "--judge-label", "mine", "--price", "m=1/2", "--price", "judge=1/2", "--dry-run"),
)


def test_the_second_judge_is_priced_as_itself_and_only_where_the_gate_may_ask_it(room: Room) -> None:
    write_files(room.work)

    def cost(*more: str) -> tuple[float, float]:
        least, most = json.loads(done(room, *SECOND, *more, "--json").out)["cost_usd"]
        return least, most

    free, usual, dear = (
        cost("--gate-judge-model", "strict", "--price", f"strict={p}") for p in ("0/0", "1/2", "10/20")
    )
    assert cost() == free
    assert usual[0] == dear[0] == free[0]
    assert dear[1] - free[1] == pytest.approx(10 * (usual[1] - free[1]))
    assert "judge@localhost:1, then strict@localhost:1" in done(room, *SECOND, "--gate-judge-model", "strict").out_text


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--gate-judge-model", "judge"), "--gate-judge-model judge: it judges the training, too; name another model"),
        (("--gate-judge-model", "strict", "--max-cost", "9"), "the price of the judge (strict at "),
    ],
)
def test_a_second_judge_that_cannot_be_is_refused_before_anything_is_asked(
    room: Room, more: tuple[str, ...], says: str
) -> None:
    write_files(room.work)
    refused = done(room, *SECOND, *more)
    assert (refused.code, says in refused.err_text) == (2, True), refused.err_text


def test_last_and_a_prefix_name_an_improvement_which_is_no_run(room: Room) -> None:
    folder = an_improvement(room.runs)
    assert find_archived("last", room.runs) == find_archived(ID[:20], room.runs) == (folder, "improvement")
    with pytest.raises(UsageError, match=f"{ID} is an improvement, not a run: .* shows the improvement"):
        find_run(ID, room.runs)


@pytest.mark.parametrize(
    ("outcome", "state", "goes_on"),
    [(None, "interrupted", True), ("undecided", "interrupted", True), ("not better", "done", False)],
)
def test_one_without_a_decision_is_listed_and_resumed_as_a_run_is(
    room: Room, outcome: ImproveOutcome | None, state: str, goes_on: bool
) -> None:
    folder = an_improvement(room.runs, outcome)
    assert last_unfinished(room.runs) == ((folder, "improvement") if goes_on else None)
    assert last_unfinished(room.runs, only_runs=True) is None
    (listed,) = json.loads(done(room, "ls", "--json").out)
    assert (listed["kind"], listed["state"], listed["outcome"]) == ("improvement", state, outcome)
    shown = done(room, "ls", "--wide").out_text
    assert f"improvement: {outcome}" in shown if outcome else "improvement" in shown
    assert json.loads(done(room, "show", "--json").out)["outcome"] == outcome


def test_report_writes_its_page_and_says_where_there_is_none_yet(room: Room) -> None:
    folder = an_improvement(room.runs)
    page = folder / "improved" / "report.html"
    page.unlink()
    assert done(room, "report").out_text == f"{page.relative_to(room.work)}\n"
    assert "No change: none." in page.read_text()
    (folder / "improved" / "improvement.json").unlink()
    assert "has no page before its end" in done(room, "report").err_text


def test_show_says_why_texts_were_refused_and_what_it_took(room: Room) -> None:
    an_improvement(room.runs)
    shown = done(room, "show").out_text
    assert "round 1 refused 1 text: its instructions is empty" in shown
    assert "0 rollouts, 0 verdicts, 1 proposal, cost $0.00" in shown


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("stats",), "is an improvement: name one of its runs or comparisons"),
        (("label", ID), "is an improvement: name one of its runs or comparisons"),
        (("show", "last", "--rollout", "1"), "--rollout is about a run, and"),
        (("report", "last", "--csv", "x.csv"), "--csv is about a run, and"),
        (("resume", "last", "--retry-failed"), "--retry-failed is about a run, and"),
        (("resume", "last", "--rubric", "writing"), "an improvement goes on as it began"),
        (("rescore", ID), "is an improvement, not a run"),
    ],
)
def test_what_an_improvement_has_no_place_for_is_refused_in_a_line(
    room: Room, argv: tuple[str, ...], says: str
) -> None:
    an_improvement(room.runs)
    refused = done(room, *argv)
    assert (refused.code, says in refused.err_text) == (2, True), refused.err_text
