"""The page of a pair: both rollouts and no other, their differences, the archive's numbers, and nothing that runs."""

import re
from contextvars import copy_context
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.archive.reader import RunReader
from harness.core.errors import set_program
from harness.core.records import Step
from harness.core.sync import in_step
from harness.pipeline.rescoring import offer_match
from harness.pipeline.run_environment import RunEnvironment
from harness.report.html.diffs import word_diff
from harness.report.html.pair_page import pair_page
from harness.report.summary.why import explain_pair, find_pair
from tests.fuzz.attacks import Room
from tests.fuzz.attempts import attempt
from tests.report.archives_by_hand import BuiltArchive, QuerySketch, RolloutSketch, build
from tests.report.parsed_page import TAGS, ParsedPage, page_of

WORDS = 2_000


def pair_page_of(built: BuiltArchive, a: int | None = None, b: int | None = None) -> str:
    query = next(built.reader.queries())
    pair = find_pair(built.reader, built.ranking, query, a, b)
    return pair_page(built.reader, built.ranking, pair, explain_pair(built.reader, built.ranking, pair))


def long_rollout(number: int) -> RolloutSketch:
    """Return a rollout of 2,000 words, each of them its own."""
    steps = [
        Step(
            kind="tool",
            reasoning=" ".join(f"why{number}x{step}x{i}" for i in range(50)),
            tool_name="search",
            tool_input=f'{{"query": "{step if step % 2 else f"own{number}"}"}}',
            tool_output=" ".join(f"found{number}x{step}x{i}" for i in range(200)),
            tool_type="function",
        )
        for step in range(6)
    ]
    answer = " ".join(f"{'shared' if i % 4 else 'own'}{i}{number if i % 4 == 0 else ''}." for i in range(WORDS // 4))
    return RolloutSketch(answer=answer, path=tuple(steps), marks=(3 + number,) * 7)


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> BuiltArchive:
    return build(tmp_path_factory.mktemp("long"), QuerySketch([long_rollout(i) for i in range(4)]))


def test_two_transcripts_of_2000_words_take_less_than_300_kb(long: BuiltArchive) -> None:
    assert len(pair_page_of(long).encode()) < 300_000


def test_it_holds_both_rollouts_no_other_and_no_path_of_the_machine(long: BuiltArchive) -> None:
    page = pair_page_of(long, 3, 1)
    assert all(f"found{number}x5x199" in page for number in (1, 3))
    assert not re.findall(r"(?:why|found)[02]x|own\d*[02]\.", page.replace("own0", ""))
    for path in (str(long.folder), str(Path.cwd()), str(Path.home()) + "/", "/tmp/"):
        assert path not in page


def test_steps_with_one_tool_and_input_stand_side_by_side(long: BuiltArchive) -> None:
    page = ParsedPage(pair_page_of(long, 3, 1))
    assert page.faults == []
    assert page.count("div", "same") == 3  # every second step has the same query
    assert page.count("div", "step-row") == 1 + 6


def test_marks_scores_and_judge_s_words_are_those_of_the_archive(long: BuiltArchive) -> None:
    (ranked,) = long.ranking.groups
    match = next(m for m in ranked.matches if {m.a, m.b} == {1, 3} or {m.a, m.b} == {0, 3})
    a, b = 3, match.a if match.b == 3 else match.b
    text = ParsedPage(pair_page_of(long, a, b)).text()
    for first, key in zip(match.shown_first, match.verdicts, strict=True):
        verdict = long.reader.verdict(key)
        assert verdict
        ours, theirs = (verdict.a, verdict.b) if first == a else (verdict.b, verdict.a)
        assert f"{ours.combined:.1f} {theirs.combined:.1f}" in text
        assert " ".join(verdict.analysis["answer_A"].split()[:6]) in text
    places = {r.index: r for r in ranked.rollouts}
    for index in (a, b):
        assert f"{places[index].score:.2f}" in text


def test_a_hostile_pair_runs_nothing_and_hides_nothing(evil: BuiltArchive) -> None:
    source = pair_page_of(evil, 2, 3)
    page = ParsedPage(source)
    assert page.faults == []
    assert {tag for tag, _ in page.elements} <= TAGS | {"mark"}
    assert not [a for _, a in page.elements for name in a if name.startswith("on")]
    assert all(link.startswith("#") for link in page.links())
    assert "<U+202E>" in page.text()
    assert "\u202e" not in source
    assert "{{ 7*7 }}" in page.text()
    policy = next(a for t, a in page_of(evil).elements if t == "meta" and "http-equiv" in a)["content"]
    own = next(a for t, a in page.elements if t == "meta" and "http-equiv" in a)["content"]
    assert own.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:")
    assert {part.split()[0] for part in own.split("; ")} == {part.split()[0] for part in policy.split("; ")} - {
        "script-src"
    }


def test_two_that_never_met_are_told_apart_by_whom_both_met(tmp_path: Path) -> None:
    room = Room.make(tmp_path / "room")
    assert attempt(
        ("run", "Lisp?", "--offline", "-n4", "-q", "--no-report", "--topology=anchor"), room.work, room.environ()
    )
    done = attempt(("why", "2", "3", "--html", "out/pair.html"), room.work, room.environ())
    assert done.code == 0, done.err_text
    page = ParsedPage((room.work / "out" / "pair.html").read_text("utf-8"))
    assert "2 judge calls make them meet" in page.text("never") + page.text()
    assert "--include 2 --include 3 --topology round_robin" in page.text()
    assert str(room.top) not in page.text()


def test_the_command_on_the_page_has_no_way_to_the_harness_of_this_machine(tmp_path: Path) -> None:
    room = Room.make(tmp_path / "room")
    assert attempt(
        ("run", "Lisp?", "--offline", "-n3", "-q", "--no-report", "--topology=anchor"), room.work, room.environ()
    )

    def drawn() -> str:
        set_program(lambda: "/opt/secret/python -m harness")
        with RunReader(next(room.runs.iterdir())) as reader:
            ranking = reader.ranking()
            pair = find_pair(reader, ranking, next(reader.queries()), 1, 2)
            around = RunEnvironment({})
            why = in_step(offer_match)(reader, ranking, explain_pair(reader, ranking, pair), "/opt/secret/run", around)
            assert why.meet
            assert why.meet.command.startswith("/opt/secret/python -m harness rescore /opt/secret/run ")
            return pair_page(reader, ranking, pair, why)

    page = copy_context().run(drawn)
    assert "/opt/secret" not in page
    assert "harness rescore 2" in page


def test_a_page_that_cannot_be_written_ends_with_2_and_a_damaged_run_writes_none(tmp_path: Path) -> None:
    room = Room.make(tmp_path / "room")
    run = room.add_run("offline-arena")
    (room.work / "folder").mkdir()
    assert attempt(("why", "--html", "folder"), room.work, room.environ()).code == 2
    path = next((run / "rollouts").iterdir())
    path.write_text(path.read_text("utf-8").replace('"index":', '"indeks":', 1))
    assert attempt(("why", "--html", "pair.html"), room.work, room.environ()).code == 5
    assert not (room.work / "pair.html").exists()


def test_a_page_is_drawn_without_the_embedded_runs_times(long: BuiltArchive) -> None:
    assert pair_page_of(long, 3, 1) == pair_page_of(long, 3, 1)
    with RunReader(long.folder) as again:
        query = next(again.queries())
        pair = find_pair(again, again.ranking(), query, 3, 1)
        assert pair_page(again, again.ranking(), pair, explain_pair(again, again.ranking(), pair)) == pair_page_of(
            long, 3, 1
        )


@given(*[st.lists(st.sampled_from(["a", "b.", "cc ", "\n", "日本", " "]), max_size=30).map("".join)] * 2)
def test_the_pieces_of_a_diff_are_the_whole_texts(first: str, second: str) -> None:
    pieces = word_diff(first, second)
    assert pieces
    assert ["".join(text for text, _ in side) for side in pieces] == [first, second]
    if first == second:
        assert not any(own for side in pieces for _, own in side)


def test_texts_made_to_take_long_are_not_compared() -> None:
    words = [f"w{i}" for i in range(150)]
    assert word_diff(" ".join(words * 60), " ".join(words[::-1] * 60)) is None
    assert word_diff(" ".join(words * 12), " ".join([*words[:40], "new", *words[40:]] * 12)) is not None
    assert word_diff("!" * 200_000 + "x", "?" * 200_000) is not None


def marked(first: str, second: str) -> list[str]:
    pieces = word_diff(first, second)
    assert pieces
    return ["".join(text for text, own in side if own).strip() for side in pieces]


def test_words_of_one_side_are_marked_and_a_sentence_that_moved_is_not() -> None:
    moved = "This sentence stands elsewhere in the other."
    assert marked("The sky over the sea is blue today.", "The sky over the sea is grey today.") == ["blue", "grey"]
    first = f"{moved} The sky over the sea is blue. And so on."
    second = f"Nobody knows why that is so at all. And so on, for long. {moved}"
    assert not any(moved in text for text in marked(first, second))
