"""The first screen of a query: who won, by how much, how sure, the answer, the cost, what failed; then the marks."""

import re
from collections import defaultdict

import pytest

from harness.archive.result_files import RankingFile
from harness.report.html.run_page import render_page
from tests.report.archives_by_hand import QuerySketch, RolloutSketch, build, crowd
from tests.report.parsed_page import ParsedPage, page_of


def before_the_ranking(page: ParsedPage) -> str:
    return page.text("q1").split(" Leaderboard Place ")[0]


def test_it_says_who_won_with_score_cost_failures_and_the_answer_before_anything_else(tmp_path):
    rollouts = [RolloutSketch(answer="Anchor."), RolloutSketch(marks=(8,) * 7, answer="The best one.")]
    built = build(tmp_path, QuerySketch([*rollouts, RolloutSketch(failure="max_turns")]))
    text = before_the_ranking(page_of(built))
    assert text.startswith("Rollout 1 won #1 rollout 1 (sample) beats #2 rollout 0 (anchor): 8 v 6, both orders agree.")
    ranked, verdicts = built.ranking.groups[0], list(built.reader.verdicts())
    group = built.reader.group(next(built.reader.queries()))
    scores = {r.index: r.score or 0.0 for r in ranked.rollouts}
    agent = sum(r.price_usd or 0 for r in group.rollouts)
    judge = sum(v.price_usd or 0 for v in verdicts)
    assert f"Score {scores[1]:.2f} score 0–10; +{scores[1] - scores[0]:.2f} against rollout 0, the second" in text
    assert f"Cost ${agent + judge:.4f} agent ${agent:.4f}, verdicts ${judge:.4f}" in text
    assert "Failed 1 rollout 1 failed: 1 max turns" in text
    assert "The winning answer" in text
    assert text.endswith("The best one.")


def test_a_tie_looks_like_a_tie(tmp_path):
    page = page_of(build(tmp_path, QuerySketch([RolloutSketch(answer=f"Answer {i}.") for i in range(2)])))
    assert before_the_ranking(page).startswith("A tie All 2 rollouts share one rank.")
    assert "The winning answer" not in page.text()
    assert page.count("div", "tie") == 1
    assert page.count("section", "winning") == 2, "both answers stand side by side"
    assert page.count("tr", "first") == 0
    many = page_of(build(tmp_path / "many", QuerySketch([RolloutSketch(answer=f"Answer {i}.") for i in range(6)])))
    assert many.count("section", "winning") == 0


def test_a_first_place_after_a_tie_is_not_called_a_win(tmp_path):
    marks = [(6,) * 7, (6,) * 7, (4,) * 7]
    rollouts = [RolloutSketch(marks=m, answer=f"Answer {i}.") for i, m in enumerate(marks)]
    page = page_of(build(tmp_path, QuerySketch(rollouts)))
    assert before_the_ranking(page).startswith("Rollout 0 is first after a tie #1 rollout 0 (anchor) stands above")
    assert "The winning answer" not in page.text()
    assert page.count("tr", "first") == 0


@pytest.mark.parametrize(("p_best", "changes"), [(0.9, {"signal": "weak"}), (0.9, {"status": "incomplete"}), (0.4, {})])
def test_a_lead_that_the_judging_does_not_show_is_not_called_a_win(p_best, changes, tmp_path):
    built = build(tmp_path, QuerySketch([RolloutSketch(), RolloutSketch(marks=(8,) * 7, answer="Ahead.")]))
    group = built.ranking.groups[0]
    ranked = tuple(r.model_copy(update={"p_best": p_best, "margin": 0.0}) for r in group.rollouts)
    group = group.model_copy(update={"rollouts": ranked, **changes})
    page = ParsedPage(render_page(built.reader, RankingFile(built.ranking.head, [group], finished=True)))
    assert before_the_ranking(page).startswith("No clear winner #1 rollout 1 (sample) beats #2 rollout 0 (anchor)")
    assert "The answer in first place" in page.text()
    assert page.count("tr", "first") == 0


def test_where_all_failed_nobody_won(tmp_path):
    page = page_of(build(tmp_path, QuerySketch([RolloutSketch(failure="quota"), RolloutSketch(failure="network")])))
    assert before_the_ranking(page).startswith("No winner No rollout has a place.")
    assert page.count("section", "winning") == 0


def test_a_group_whose_verdicts_all_failed_is_not_said_to_be_alike_or_placed_by_margins(tmp_path):
    built = build(tmp_path, crowd(3, refuse=lambda _first, _second: True))
    level = [r.model_copy(update={"margin": 0.0}) for r in built.ranking.groups[0].rollouts]
    group = built.ranking.groups[0].model_copy(update={"rollouts": tuple(level), "signal": "none"})
    page = ParsedPage(render_page(built.reader, RankingFile(built.ranking.head, [group], finished=True)))
    assert "Signal – the group is not judged in full" in before_the_ranking(page)
    assert "=1" not in page.text()


def test_provenance_stands_at_the_foot(tmp_path):
    source = render_page((built := build(tmp_path, crowd(3))).reader, built.ranking)
    body = source.split("<body>")[1]
    for words in (built.ranking.head.rubric, built.ranking.head.id, "openai-agents"):
        assert words not in body.split("<footer>")[0].split('class="trust"')[0]
        assert words in body.split("<footer>")[1]


@pytest.mark.parametrize("topology", ["arena", "single"])
def test_the_marks_are_the_means_of_all_verdicts_and_the_ends_of_each_column_are_marked(topology, tmp_path):
    built = build(tmp_path, crowd(6, topology=topology, shift=lambda entrant, opponent, first: (entrant + first) % 2))
    marks = defaultdict(lambda: defaultdict(list))
    for match in built.ranking.groups[0].matches:
        if match.repeated:
            continue
        for first, key in zip(match.shown_first, match.verdicts, strict=True):
            verdict = built.reader.verdict(key)
            assert verdict is not None
            second = match.b if first == match.a else match.a
            for entrant, side in ((first, verdict.a), (second, verdict.b)):
                for name, mark in side.dimensions.items():
                    marks[name.replace("_", " ")][entrant].append(mark)
    source = render_page(built.reader, built.ranking)
    table = source.split('<table class="matrix cards">')[1].split("</table>")[0]
    rows = {int(re.findall(r'href="#q1-r(\d+)"', row)[0]): row for row in table.split("<tr>")[2:]}
    assert set(rows) == set(range(6))
    for name, of_name in marks.items():
        means = {entrant: sum(m) / len(m) for entrant, m in of_name.items()}
        for entrant, row in rows.items():
            (cell,) = re.findall(rf'<td class="num" data-label="{name}">(.*?)</td>', row)
            assert f"{means[entrant]:.2f}" in cell
            differ = min(means.values()) < max(means.values())
            assert ('class="best"' in cell) == (differ and means[entrant] == max(means.values()))
            assert ('class="worst"' in cell) == (differ and means[entrant] == min(means.values()))


def test_each_rollout_stands_with_its_matches_as_links_and_what_the_judge_said_of_it(tmp_path):
    built = build(tmp_path, crowd(5))
    page = page_of(built)
    for number, match in enumerate(built.ranking.groups[0].matches, 1):
        for us, them in ((match.a, match.b), (match.b, match.a)):
            won = "Tied with" if match.winner is None else "Won against" if match.winner == us else "Lost against"
            ours, theirs = (match.score_a, match.score_b) if us == match.a else (match.score_b, match.score_a)
            text = page.text(f"q1-r{us}")
            assert f"{won} rollout {them} {ours:.2f} v {theirs:.2f}" in text
            assert f"No. {number}" in text
            assert "keeps to the request; see its second step." in text
        margin = abs(match.score_a - match.score_b)
        row = page.text("q1").split(f"No. {number} ", 1)[1]
        assert (f"by {margin:.2f}" if margin else "level") in row
