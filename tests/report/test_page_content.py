"""What the page says of one query: headline, figures, failures, the judge's claims."""

from datetime import timedelta

import pytest

from harness.archive.reader import RunReader
from harness.archive.result_files import RankingFile
from harness.archive.store import RunStore
from harness.core.records import Effective
from harness.report.html.run_page import render_page
from harness.report.terminal.show import group_lines
from tests.report.archives_by_hand import START, BuiltArchive, QuerySketch, RolloutSketch, build, crowd
from tests.report.parsed_page import ParsedPage, page_of


def test_the_headline_names_the_first_two_with_scores_agreement_and_reasons(tmp_path):
    rollouts = [
        RolloutSketch(marks=(6,) * 7, answer="Anchor."),
        RolloutSketch(marks=(8, 8, 8, 8, 8, 5, 8), answer="Sample."),
    ]
    text = page_of(build(tmp_path, QuerySketch(rollouts))).text()
    assert "#1 rollout 1 (sample) beats #2 rollout 0 (anchor): 7.4 v 6, both orders agree." in text
    assert (
        "Won on understanding +2.0, logic +2.0, richness +2.0, relevance +2.0, content quality +2.0, clarity +2.0; "
        "lost on language style −1.0." in text
    )


@pytest.mark.parametrize("met", [True, False])
def test_page_and_terminal_say_in_the_same_words_how_the_first_two_stand(met, tmp_path):
    built = build(tmp_path, crowd(5))
    group = built.ranking.groups[0]
    if not met:
        group = group.model_copy(update={"matches": ()})
    query = next(built.reader.queries())
    headline = group_lines(built.reader.group(query), group, built.reader)[0].plain
    first_two = headline.split("; won on")[0] if met else headline
    assert ("the two never met" in first_two) is not met
    text = ParsedPage(render_page(built.reader, RankingFile(built.ranking.head, (group,), finished=True))).text()
    assert f"{first_two}." in text


def test_flips_are_marked_and_counted(tmp_path):
    page = page_of(build(tmp_path, crowd(2, shift=lambda _entrant, _opponent, first: 3 if first else -3)))
    assert "Changed with order 1 of 1" in page.text("q1")
    assert "First shown wins 100 %" in page.text("q1")
    assert "the two orders name opposite winners" in page.text("q1-m1")


def test_failed_rollouts_stand_with_kind_message_and_the_steps_so_far(tmp_path):
    rollouts = [*crowd(3).rollouts, RolloutSketch(failure="max_turns", message="Max turns (20) exceeded", answer="")]
    page = page_of(build(tmp_path, QuerySketch(rollouts)))
    assert "Failed rollouts" in page.text()
    assert "Rollout 3 max turns after 1 step, in turn 2" in page.text("q1")
    assert "SomeError: Max turns (20) exceeded" in page.text("q1-r3")
    assert "Found." in page.text("q1-r3")
    assert "1 failed: 1 max turns" in page.text("q1")


def test_a_group_with_nothing_to_rank_has_a_page(tmp_path):
    page = page_of(build(tmp_path, QuerySketch([RolloutSketch(failure="quota"), RolloutSketch(failure="network")])))
    assert "No rollout has a place." in page.text()
    assert "No rollout ended well" in page.text()


def test_failed_verdicts_stand_with_who_was_to_be_compared_and_why(tmp_path):
    page = page_of(build(tmp_path, crowd(4, refuse=lambda *pair: pair == (0, 2))))
    text = page.text("q1")
    assert "Rollout 0 against rollout 2" in text
    assert "ReplyError: path_scores.LLM_A.logic is missing." in text
    assert "This group is incomplete." in text


def test_what_the_judge_claimed_against_its_own_marks_and_a_repair_are_shown(tmp_path):
    page = page_of(build(tmp_path, crowd(4)))
    text = page.text()
    assert "combined_scores.LLM_A = 7.25 (LLM_A is rollout 3, LLM_B is rollout 0)" in text
    assert "repaired" in text


@pytest.mark.parametrize("offline", [True, False])
def test_a_self_test_says_so_and_only_a_self_test(offline, tmp_path):
    built = build(tmp_path, crowd(3), offline=offline)
    assert ("its ranks say nothing of any LLM" in page_of(built).text()) is offline


def test_an_effective_temperature_is_shown_where_it_differs(tmp_path):
    built = build(tmp_path, crowd(2))
    assert "effective:" not in page_of(built).text()
    query = next(built.reader.queries())
    changed = built.reader.group(query).rollouts[1].model_copy(update={"effective": Effective(uniform=False)})
    refused = changed.calls[0].model_copy(update={"error": "InternalServerError"})
    for calls, said in ((changed.calls, True), ((refused,), False)):
        with RunStore(built.folder, START + timedelta(days=1)) as store:
            store.add_rollout(changed.model_copy(update={"calls": calls}))
        with RunReader(built.folder) as reader:
            text = page_of(BuiltArchive(reader, built.ranking, built.folder)).text()
        assert ("0.8 effective: not the same in every call" in text) == said


def test_of_two_queries_the_head_names_each_result_with_a_link(tmp_path):
    page = page_of(build(tmp_path, crowd(2, query="Why?"), QuerySketch([RolloutSketch(failure="quota")] * 2, "How?")))
    head = page.text().partition(" Query 1 of 2 ")[0]
    assert "judged and ranked Rollout 1 won: Why? No winner: How?" in head


def test_an_unknown_price_is_unknown_and_no_zero(tmp_path):
    page = page_of(build(tmp_path, crowd(2), price=None))
    assert "Judging cost unknown" in page.text()
