"""Many queries and long texts: what is summed up, folded, cut and left out."""

import re

from harness.archive.result_files import RankingFile
from harness.core.records import Step
from harness.report.html.run_page import render_page
from tests.report.archives_by_hand import QuerySketch, RolloutSketch, build, crowd
from tests.report.parsed_page import ParsedPage, page_of


def test_an_unfinished_ranking_says_so_and_owes_the_queries_it_has_not_come_to(tmp_path):
    built = build(tmp_path, crowd(2), crowd(2, query="And the sea?"), finish=False)
    first = RankingFile(built.ranking.head, built.ranking.groups[:1], finished=False)
    text = ParsedPage(render_page(built.reader, first)).text()
    assert "This ranking is not finished." in text
    assert "And the sea?" in text
    assert "This ranking has not come to this query yet." in text


def test_long_texts_are_cut_and_the_cut_is_marked(tmp_path):
    step = Step(kind="tool", reasoning="Short thought.", tool_name="read", tool_output="word " * 200_000)
    page = page_of(
        build(tmp_path, QuerySketch([RolloutSketch(path=(step,) * 2, answer=f"Answer {i}.") for i in range(2)]))
    )
    text = page.text("q1-r1")
    assert re.search(r"Cut here: 9\d\d,\d{3} more characters\.", text)
    assert text.count("Short thought.") == 2
    assert "Answer 1." in text


def test_a_transcript_stands_once_on_a_page_and_the_winning_answer_once_more_at_its_top(tmp_path):
    page = page_of(build(tmp_path, crowd(8)))
    (winner,) = [a["aria-label"][-1] for _, a in page.elements if a.get("class") == "winning"]
    for rollout in range(8):
        ranking_table_and_card = 3  # the table's beginning, the card's preview, the answer
        shown = page.text().count(f"Answer number {rollout}.")
        assert shown == ranking_table_and_card + (str(rollout) == winner)


def test_a_group_of_eight_with_thousand_word_paths_stays_small(tmp_path):
    steps = tuple(
        Step(
            kind="tool",
            reasoning="why " * 40,
            tool_name="search",
            tool_input='{"q": "x"}',
            tool_output=f"{k} " + "lorem ipsum " * 80,
        )
        for k in range(5)
    )
    sketch = crowd(8)
    for i, rollout in enumerate(sketch.rollouts):
        rollout.path, rollout.answer = steps, f"{i} " + "An answer of some length. " * 46
    built = build(tmp_path, sketch)
    assert len(render_page(built.reader, built.ranking).encode()) < 500_000
