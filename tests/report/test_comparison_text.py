"""What a comparison prints, its Markdown and its CSV: complete, in width, and safe from what strangers wrote."""

import csv
import io
import json

import pytest
from markdown_it import MarkdownIt
from rich.cells import cell_len
from rich.console import Console

from harness.core.comparisons import Interval, SideFigures
from harness.report.csv import matches_csv
from harness.report.markdown import comparison_markdown
from harness.report.summary.comparison import result_figures, sides_rows
from harness.report.terminal.comparison import comparison_lines
from tests.comparisons_by_hand import MadeComparison, Writer, a_comparison, a_result, make
from tests.report.archives_by_hand import EVIL

MENTIONS = (
    " @octocat #1 GH-12 org/repo#3 !5 https://evil.example www.evil.example a@b.example `` ``` ` </code> [x](y) |"
)
HOSTILE = f"{EVIL[:400]}{MENTIONS}\n\n# heading\n- [ ] task\n\n    code\n| a | b |\n|--|--|\n"


def printed(made: MadeComparison, width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO(), markup=False, highlight=False, emoji=False)
    with console.capture() as capture:
        for line in comparison_lines(made.comparison, made.queries, width):
            console.print(line)
    return capture.get().splitlines()


def test_the_sentence_stands_first_and_the_losses_come_worst_first():
    made = make(20, failed=True)
    lines = printed(made, 120)
    assert " ".join(lines[:2]).startswith(made.comparison.sentence[:60])
    table = lines[next(at for at, line in enumerate(lines) if "worst first" in line) + 3 :]
    lost = [line.split()[0] for line in table if line.startswith("q")]
    outcomes = {query.ids[0]: query.outcome((0, 1)) or 0.0 for query in made.queries}
    assert lost[: len(lost)] == sorted(lost, key=lambda name: outcomes[name])
    assert set(lost) == {name for name, outcome in outcomes.items() if outcome < 0.5}


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("made", [make(20, failed=True), make(6, sides=4), make(3, evil=HOSTILE)])
def test_no_line_is_wider_than_the_terminal_and_no_column_is_left_out(made: MadeComparison, width: int):
    lines = printed(made, width)
    assert all(cell_len(line) <= width for line in lines)
    assert not any("shows more" in line for line in lines)
    text = " ".join(" ".join(lines).split())
    for words in ("$0.0123 [0.0100, 0.0150]", "12.3 s [10.1, 14.2]", "5 % [0, 12]", "0.70 [0.50, 0.90]"):
        assert text.count(words) == len(made.comparison.sides)


def test_figures_that_there_are_not_are_left_out_and_those_there_are_say_what_they_mean():
    queries = [Writer().query(n, (1.0, -1.0)) for n in range(4)]
    bare = a_comparison(queries, results=(a_result(queries, margin=None, anchors=None, floor=None, both_orders=0),))
    bare = bare.model_copy(update={"figures": (), "slices": (), "notes": ()})
    text = "\n".join(printed(MadeComparison(bare, tuple(queries), {}, {}), 80))
    assert not any(
        words in text for words in ("margin", "anchors", "floor", "changed with order", "reward()", "note:", "lost")
    )
    full = a_result(
        queries,
        without_forfeits=Interval(value=0.5, low=0.3, high=0.7),
        forfeits=(1, 2),
        unjudged=3,
        bounds=(0.4, 0.6),
        clusters=2,
        floor_from="runs",
    )
    lines = printed(MadeComparison(a_comparison(queries, results=(full,)), tuple(queries), {}, {}), 80)
    text = " ".join(" ".join(lines).split())
    for words in (
        "A failed in 1 pair, B in 2",
        "all lost, the win rate is 40 %",
        "over 2 clusters",
        "A against itself",
    ):
        assert words in text


@pytest.mark.parametrize(
    ("low", "value", "high", "gone"),
    [(0.3, 0.6, 0.8, True), (0.2, 0.3, 0.4, True), (0.3, 0.7, 0.9, False), (0.55, 0.6, 0.7, False)],
)
def test_a_lead_that_is_gone_at_equal_length_is_doubted(low: float, value: float, high: float, gone: bool):
    queries = [Writer().query(n, (1.0, 1.0)) for n in range(12)]
    same = Interval(value=value, low=low, high=high)
    lead = a_result(queries, win_rate=0.75, interval=(0.6, 0.9), unjudged=0, length_controlled=same)
    loss = lead.model_copy(update={"win_rate": 0.25, "interval": (0.1, 0.4)})
    mirrored = Interval(value=1 - value, low=1 - high, high=1 - low)
    for result in (lead, loss.model_copy(update={"length_controlled": mirrored})):
        (said,) = [figure.meaning for figure in result_figures(result) if figure.label == "at equal length"]
        assert said.startswith("most of the lead is gone") == gone


def test_nothing_that_a_stranger_wrote_means_anything_in_markdown():
    made = make(14, evil=HOSTILE, failed=True)
    markdown = comparison_markdown(made.comparison, made.queries)
    for preset in ("commonmark", "js-default"):
        tokens = MarkdownIt(preset).enable("table").parse(markdown)
        inline = [child for token in tokens for child in token.children or ()]
        assert {token.type for token in tokens if token.type.endswith("_open")} <= {
            "paragraph_open",
            "bullet_list_open",
            "ordered_list_open",
            "list_item_open",
            *(f"{part}_open" for part in ("table", "thead", "tbody", "tr", "th", "td")),
        }
        assert {child.type for child in inline} <= {"text", "strong_open", "strong_close", "code_inline", "softbreak"}
        prose = " ".join(child.content for child in inline if child.type == "text")
        assert not any(part in prose for part in ("@", "#", "octocat", "evil", "<", "`", "://", "GH-"))


@pytest.mark.parametrize(
    "name", ["[1](2)", "[1]: 2", "[1][2]", "GH-12", "0123abc", "a.b", "x_y_z", "*x*", "<b>", "~x~"]
)
def test_a_note_in_which_a_name_means_something_is_a_code_span(name: str):
    made = make(2, notes=(f"the judge {name} and side B share a family",))
    assert f"`note: the judge {name} and" in comparison_markdown(made.comparison, made.queries)


def test_markdown_holds_verdict_figures_and_at_most_ten_losses():
    writer = Writer()
    queries = [writer.query(number, (-1.0 - number / 10, 0.5)) for number in range(4)]
    queries += [writer.query(number, (-1.0 - number / 10, -0.5)) for number in range(4, 16)]
    comparison = a_comparison(queries)
    markdown = comparison_markdown(comparison, queries)
    assert markdown.startswith(f"**{comparison.sentence}**\n")
    assert "| cost a rollout | $0.0123 [0.0100, 0.0150] | $0.0123 [0.0100, 0.0150] |" in markdown
    assert [line.split("`")[3] for line in markdown.splitlines() if line[:1].isdigit()] == [
        f"q{number}" for number in range(15, 5, -1)
    ]
    assert "B lost 12 of 16 queries to A" in markdown
    assert "; 95 % interval (t) over 16 queries |" in markdown


def test_every_match_is_a_line_of_csv_and_no_cell_is_a_formula():
    made = make(3, evil="\n=cmd|'/C calc'!A0", failed=True)
    formula = made.queries[1].model_copy(update={"text": '=HYPERLINK("evil")', "ids": ("+1", "@sum")})
    rows = list(csv.DictReader(io.StringIO("".join(matches_csv(made.comparison, [*made.queries, formula])))))
    assert len(rows) == sum(len(query.matches) for query in [*made.queries, formula])
    numbers = {"score_first", "score_second", "margin", "outcome"}
    assert not any(cell[:1] in "=+-@" for row in rows for name, cell in row.items() if cell and name not in numbers)
    assert rows[-1]["text"] == '\'=HYPERLINK("evil")'
    assert (rows[-1]["first_query_id"], rows[-1]["second_query_id"]) == ("'+1", "'@sum")
    assert [float(row["outcome"]) for row in rows] == [m.outcome for q in [*made.queries, formula] for m in q.matches]
    assert {row["forfeit"] for row in rows} == {"", "second"}
    lost = next(row for row in rows if row["forfeit"])
    assert (lost["second_failure"], lost["score_first"]) == ("max_turns", "")
    assert json.loads(rows[0]["orders"]) == [["first", 6.0, 6.2], ["second", 6.0, 6.2]]
    assert min(float(row["margin"]) for row in rows if row["margin"]) < 0  # a negative number stays one


def test_half_a_per_cent_of_failures_goes_up():
    failed = Interval(value=0.375, low=0.125, high=0.625)
    (row,) = [row for row in sides_rows([SideFigures(label="A", rollouts=8, failed=failed)]) if row.label == "failed"]
    assert row.values == ("38 % [13, 63]",)
