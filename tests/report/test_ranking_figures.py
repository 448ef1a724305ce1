"""What `stats` says of a ranking's rollouts, against a plain reading of the records."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import get_args

import pytest
from rich.console import Console

from harness.archive.reader import RunReader
from harness.archive.result_files import RankingFile
from harness.core.rankings import Judged, Ranked
from harness.core.settings import EstimatorName
from harness.ranking.judge_stats.side_by_side import QueryFigure
from harness.report.html.run_page import render_page
from harness.report.json import figures_json
from harness.report.summary.group import JudgeFigures
from harness.report.summary.ranking import summarize
from harness.report.summary.ranking_figures import ranking_figures, ranking_words
from harness.report.summary.rollouts import SCORES
from harness.report.terminal.details import path_lines
from harness.report.terminal.show import group_table
from tests.fuzz.attacks import Room
from tests.report.archives_by_hand import QuerySketch, RolloutSketch, build, crowd
from tests.report.parsed_page import ParsedPage

ARCHIVES = ("online-arena", "offline-cyclic", "online-jury", "online-ruler", "offline-unjudged", "online-asked-again")


def sign(number: float) -> int:
    return (number > 0) - (number < 0)


def verdicts_of(reader: RunReader, ranking: RankingFile) -> list[Judged]:
    keys = {(group.query, key) for group in ranking.groups for match in group.matches for key in match.verdicts}
    return [verdict for _, key in sorted(keys) if (verdict := reader.verdict(key))]


def test_the_scores_of_every_estimator_have_a_heading():
    assert set(SCORES) == set(get_args(EstimatorName))


@pytest.mark.parametrize("archive", ARCHIVES)
def test_the_figures_are_those_of_a_plain_reading(archive: str, tmp_path: Path):
    with RunReader(Room.make(tmp_path / "room").add_run(archive)) as reader:
        ranking = reader.ranking()
        figures, summary = ranking_figures(reader, ranking), summarize(reader, ranking)
        groups = [reader.group(query) for query in reader.queries() if ranking.of(query)]
        ended = [[r for r in group.rollouts if r.status == "ok"] for group in groups]
        assert figures.answers
        assert figures.answers.value * len(groups) == sum(len({r.trajectory.answer.strip() for r in e}) for e in ended)
        assert figures.ended_well
        assert figures.ended_well.value * len(groups) == sum(map(len, ended))
        flat = [g for g in ranking.groups if not any(r.advantage for r in g.rollouts)]
        assert sum(figures.flat.values()) == len(flat)
        above, samples = summary.above_anchor
        assert (figures.above_anchor.value if figures.above_anchor else None) == (above / samples if samples else None)
        verdicts = verdicts_of(reader, ranking)
        for name, decides in figures.dimensions.items():
            marks = [
                (sign(v.a.dimensions[name] - v.b.dimensions[name]), sign(v.a.combined - v.b.combined))
                for v in verdicts
                if v.a.combined != v.b.combined
            ]
            assert (decides.part, decides.whole) == (sum(a == b for a, b in marks), len(marks))
        names = list(figures.dimensions)
        leads = {n: [sign(v.a.dimensions[n] - v.b.dimensions[n]) for v in verdicts] for n in names}
        alike = {(a, b) for a, b in combinations(names, 2) if leads[a] == leads[b] and any(leads[a])}
        assert set(figures.never_part) == alike
        assert all(f.value and f.meaning for f in ranking_words(figures, summary.agents, summary.judge))


@pytest.mark.parametrize(
    ("advantages", "signal", "flat", "weak"),
    [
        ((0.0, 0.0, 0.0), "none", {"the scores are level": 1}, 0),
        ((None, None, None), "none", {"verdicts are missing": 1}, 0),
        ((1.0, -1.0, 0.0), "weak", {}, 1),
        ((1.0, -1.0, 0.0), "ok", {}, 0),
    ],
)
def test_a_group_without_a_gradient_is_counted_with_its_reason(
    advantages: tuple[float | None, ...], signal: str, flat: dict[str, int], weak: int, tmp_path: Path
):
    with RunReader(Room.make(tmp_path / "room").add_run("offline-arena")) as reader:
        whole = reader.ranking()
        (group, *_) = whole.groups
        ranked = tuple(Ranked(index=i, advantage=a, rank=None if a is None else i) for i, a in enumerate(advantages))
        changed = group.model_copy(update={"signal": signal, "rollouts": ranked})
        figures = ranking_figures(reader, RankingFile(whole.head, (changed,), whole.finished))
        assert (figures.flat, figures.weak) == (flat, weak)


def test_the_share_of_the_judge_s_input_that_was_cached_is_shown_if_any_was(tmp_path: Path):
    with RunReader(Room.make(tmp_path / "room").add_run("online-arena")) as reader:
        ranking = reader.ranking()
        figures, agents = ranking_figures(reader, ranking), summarize(reader, ranking).agents
    words = {f.name: f.value for f in ranking_words(figures, agents, JudgeFigures(cached=300, input=1000))}
    assert words["cached"] == "30 %"
    assert "cached" not in {f.name for f in ranking_words(figures, agents, JudgeFigures(input=1000))}


@pytest.mark.parametrize(
    ("alike", "interval"), [(RolloutSketch(), (1.0, 4.0)), (RolloutSketch(failure="api"), (0.0, 4.0))]
)
def test_an_interval_of_counts_holds_nothing_that_a_count_cannot_be(
    alike: RolloutSketch, interval: tuple[float, float], tmp_path: Path
):
    built = build(tmp_path, QuerySketch([alike] * 4), crowd(4, query="What else?"))
    figures = ranking_figures(built.reader, built.ranking)
    assert figures.answers
    assert (figures.answers.low, figures.answers.high) == interval


def test_samples_that_are_level_with_the_anchor_are_not_said_to_be_below_it(tmp_path: Path):
    with RunReader(Room.make(tmp_path / "room").add_run("online-arena")) as reader:
        ranking = reader.ranking()
        figures, agents = ranking_figures(reader, ranking), summarize(reader, ranking).agents
    above = replace(figures, above_anchor=QueryFigure(value=0.12, low=0.10, high=0.14, queries=300))
    said = {f.name: f.meaning for f in ranking_words(above, agents, JudgeFigures())}
    assert said["above_anchor"] == "most samples are level with the anchor or below it"


def test_where_every_verdict_is_a_tie_no_dimension_is_said_to_decide(tmp_path: Path):
    built = build(tmp_path, QuerySketch([RolloutSketch(answer=f"Answer {i}.") for i in range(3)]))
    figures, agents = ranking_figures(built.reader, built.ranking), summarize(built.reader, built.ranking).agents
    (words,) = (f for f in ranking_words(figures, agents, JudgeFigures()) if f.name == "dimensions")
    assert (words.value, words.meaning) == ("none", "no verdict is decided: all are ties")


def test_an_empty_answer_is_counted_and_shown_as_what_it_is(tmp_path: Path):
    sketches = [RolloutSketch(answer=answer) for answer in ("One.", "", " \n")]
    built = build(tmp_path, QuerySketch([*sketches, RolloutSketch(failure="timeout")]))
    figures, agents = ranking_figures(built.reader, built.ranking), summarize(built.reader, built.ranking).agents
    assert figures.empty_answers == figures_json(figures, agents, JudgeFigures())["empty_answers"] == 2
    words = {f.name: f.meaning for f in ranking_words(figures, agents, JudgeFigures())}
    assert words["answers"].endswith("; 2 answers are empty")
    (group,) = (built.reader.group(query) for query in built.reader.queries())
    shown = [line.plain for line in group_table(group, built.ranking.groups[0], 200)]
    assert [line.endswith("(empty answer)") for line in shown].count(True) == 2
    console = Console(width=100)
    with console.capture() as capture:
        console.print(path_lines(group, 1))
    assert capture.get().endswith("Answer\n(empty answer)\n")
    assert ParsedPage(render_page(built.reader, built.ranking)).text().count("(empty answer)") == 2


def test_dimensions_that_never_part_from_each_other_are_named_together(tmp_path: Path):
    with RunReader(Room.make(tmp_path / "room").add_run("online-arena")) as reader:
        ranking = reader.ranking()
        figures, agents = ranking_figures(reader, ranking), summarize(reader, ranking).agents
    pairs = (("logic", "clarity"), ("logic", "richness"), ("relevance", "style"), ("clarity", "richness"))
    said = {f.name: f.meaning for f in ranking_words(replace(figures, never_part=pairs), agents, JudgeFigures())}
    assert said["dimensions"].endswith(
        "; logic, clarity and richness never part: one would do; relevance and style never part: one would do"
    )
