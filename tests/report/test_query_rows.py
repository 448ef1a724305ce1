"""A row a query: winners, orders, columns of metadata, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.archive import reader
from harness.report.summary.group import QueryLine
from harness.report.summary.ranking import QueryLines
from tests.fuzz.attacks import Room
from tests.fuzz.attempts import Outcome, attempt
from tests.report.archives_by_hand import QuerySketch, RolloutSketch, build, crowd

QUERIES = (
    {"id": "lisp", "query": "Why did Lisp machines disappear?", "difficulty": "hard", "year": 1958},
    {"id": "cobol", "query": "Tell me about COBOL.", "difficulty": "easy", "tags": ["a", "b"]},
    {"id": "prolog", "query": "Tell me about Prolog.", "difficulty": "hard", "year": 1972},
)


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Room:
    """A room with a run of the three queries."""
    room = Room.make(tmp_path_factory.mktemp("queries") / "room")
    (room.work / "q.jsonl").write_text("\n".join(map(json.dumps, QUERIES)))
    assert harness(room, "run", "--offline", "-n", "2", "-q", "--no-report", "--queries", "q.jsonl").code == 0
    return room


def harness(room: Room, *argv: str) -> Outcome:
    outcome = attempt(argv, room.work, room.environ())
    assert outcome.faults() == []
    return outcome


def test_a_ranking_that_was_cut_short_before_its_first_query_shows_no_figures(room: Room):
    earlier = set(room.work.glob("runs/*/rankings/*.jsonl"))
    assert harness(room, "rescore", "--topology", "cyclic", "-q").code == 0
    (newest,) = set(room.work.glob("runs/*/rankings/*.jsonl")) - earlier
    before, whole = harness(room, "show").out_text, newest.read_text("utf-8")
    newest.write_text(whole.splitlines(keepends=True)[0], "utf-8")
    shown, listed = harness(room, "show").out_text, harness(room, "show", "--rankings", "--wide").out_text
    newest.write_text(whole, "utf-8")
    assert "judge in this ranking: 0 calls, $0.00 · agent: 6 runs" in before
    assert "judge: not begun, no query is ranked yet\n" in shown
    (row,) = (line for line in listed.splitlines() if "0 of 3" in line)
    assert row.split()[-3:] == ["–"] * 3


def rows(outcome: Outcome) -> list[str]:
    """Return the first words of the rows of the table that was printed."""
    assert outcome.code == 0, outcome.err_text
    lines = outcome.out_text.splitlines()
    below = next(at for at, line in enumerate(lines) if line.startswith("─")) + 1
    ends = next(at for at, line in enumerate(lines) if at >= below and (" queries, " in line or "--wide" in line))
    return [line.split("  ")[0] for line in lines[below:ends] if not line.startswith("and ")]


@pytest.mark.parametrize(
    ("key", "order"),
    [
        ("number", ["lisp", "cobol", "prolog"]),
        ("-number", ["prolog", "cobol", "lisp"]),
        ("id", ["cobol", "lisp", "prolog"]),
        ("year", ["lisp", "prolog", "cobol"]),
        ("-year", ["prolog", "lisp", "cobol"]),
        ("query", ["cobol", "prolog", "lisp"]),
    ],
)
def test_rows_are_in_the_order_asked_for_and_those_without_a_value_come_last(key: str, order: list[str], room: Room):
    assert rows(harness(room, "show", "--sort", key)) == order


@pytest.mark.parametrize("key", "winner score margin p_best p(best) signal flips tokens cost time failed".split())
def test_every_documented_key_and_every_heading_sorts(key: str, room: Room):
    assert sorted(rows(harness(room, "show", "--sort", key))) == ["cobol", "lisp", "prolog"]


def test_fields_of_the_metadata_are_columns_and_stand_in_the_json(room: Room):
    shown = harness(room, "show", "--columns", "difficulty,tags", "--wide").out_text
    heading, *lines = shown.splitlines()[1:]
    assert heading.split()[-3:-1] == ["difficulty", "tags"]
    (cobol,) = (line for line in lines if line.startswith("cobol"))
    assert 'easy        ["a", "b"]  Tell me about COBOL.' in cobol
    groups = json.loads(harness(room, "show", "--json").out_text)["groups"]
    assert [group["metadata"] for group in groups] == [
        {key: value for key, value in query.items() if key not in {"id", "query"}} for query in QUERIES
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--sort", "costs"),
            "--sort: there is no 'costs'; did you mean 'cost'? There are: number, id, winner",
        ),
        (("--columns", "difficulty,levle"), "--columns: there is no 'levle'. There are: difficulty, year, tags"),
        (("--sort", "id", "--match", "1"), "--match and --sort show different things: give one of them"),
        (("--brief",), "--brief leaves the transcripts out of a match: name the match with --match N"),
    ],
)
def test_what_cannot_be_listed_is_refused_with_what_there_is(options: tuple[str, ...], said: str, room: Room):
    outcome = harness(room, "show", *options)
    assert (outcome.code, said in outcome.err_text) == (2, True), outcome.err_text


def test_twenty_rows_are_shown_or_all(tmp_path: Path):
    room = Room.make(tmp_path / "room")
    build(room.runs, *(crowd(2) for _ in range(22)))
    assert len(rows(harness(room, "show"))) == 20
    assert "and 2 more: `harness show --all`" in harness(room, "show").out_text
    assert len(rows(harness(room, "show", "--all"))) == 22


def test_a_first_place_by_a_tie_says_so(tmp_path: Path):
    room = Room.make(tmp_path / "room")
    level = QuerySketch([RolloutSketch(answer=f"Answer {i}.", marks=(5,) * 7) for i in range(3)])
    marks = {0: 5, 1: 6, 2: 2}
    seeded = QuerySketch(
        [RolloutSketch(answer=f"Answer {i}.", marks=(mark,) * 7) for i, mark in marks.items()],
        shift=lambda entrant, opponent, first: -1 if (entrant, opponent) == (1, 0) else 0,
    )
    build(room.runs, level, seeded)
    shown = harness(room, "show").out_text
    assert "tie: rollout 0 (anchor) shares first place with rollout 1 (sample) and rollout 2 (sample)" in shown
    listed = harness(room, "show", "--all").out_text
    assert "tie: 0, 1, 2" in listed
    assert "a tie, so the better seed goes on" in shown
    assert "anchor 0, by a tie" in listed


def test_rescoring_reads_the_index_of_a_run_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    room = Room.make(tmp_path / "room")
    (room.work / "q.jsonl").write_text(
        "".join(json.dumps({"id": f"q{k}", "query": f"What is {k}?"}) + "\n" for k in range(4))
    )
    assert harness(room, "run", "--offline", "-n", "2", "-q", "--no-report", "--queries", "q.jsonl").code == 0
    read, usual = list[Path](), reader.Index

    def build(folder: Path, *rest: Any, **options: Any) -> Any:
        read.append(folder)
        return usual(folder, *rest, **options)

    monkeypatch.setattr(reader, "Index", build)
    outcome = harness(room, "rescore", "--free", "--estimator", "margins", "-q", "--no-report")
    assert outcome.code == 0, outcome.err_text
    assert "next: " in outcome.out_text
    assert len(read) == 1


def test_packed_lines_of_queries_are_those_that_were_added():
    first = QueryLine(
        number=1,
        id="q \ud800",
        title="Why?",
        signal="ok",
        complete=True,
        first=(0, 2),
        first_role="anchor",
        by_tie=False,
        score=0.1,
        score_name="score",
        scores=(0.1, -2.5, 1e300),
        anchor_score=0.1,
        p_best=None,
        flips=(1, 7),
        tokens=2**70,
        usd=None,
        seconds=1.25,
        metadata={"year": 1958, "of": "Ärzte", "share": 0.5},
        above_anchor=(0, 2),
        runs=3,
        failed=0,
    )
    second = replace(first, number=2, first=(), first_role=None, score=None, scores=(), tokens=None, metadata={})
    lines = QueryLines()
    for line in (first, second, first):
        lines.append(line)
    assert list(lines) == [first, second, first]
    assert lines[-2:] == [second, first]
    assert len(lines) == 3
