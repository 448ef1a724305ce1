"""Rollouts, matches and bracket on the page: each is there, and every link leads somewhere."""

import pytest

from harness.archive.result_files import RankingFile
from harness.report.html.run_page import render_page
from tests.report.archives_by_hand import QuerySketch, RolloutSketch, build, crowd
from tests.report.parsed_page import ParsedPage, page_of


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 13, 16])
def test_every_rollout_and_every_match_is_there_and_every_link_leads_somewhere(n, tmp_path):
    built = build(tmp_path, crowd(n))
    page, ranked = page_of(built), built.ranking.groups[0]
    assert len(ranked.matches) == 2 * (n - 1)
    assert {f"q1-r{i}" for i in range(n)} | {f"q1-m{i + 1}" for i in range(len(ranked.matches))} <= set(page.ids())
    assert page.count("details", "match") == len(ranked.matches)
    for number, match in enumerate(ranked.matches, 1):
        text = page.text(f"q1-m{number}")
        for side, score in ((match.a, match.score_a), (match.b, match.score_b)):
            assert f"Rollout {side}" in text
            assert f"{score:.2f}" in text
            assert f"Answer number {side}." in page.text(f"q1-r{side}")
            assert f"No. {number}" in page.text(f"q1-r{side}")
            assert page.links().count(f"#q1-r{side}") >= 2, "matches link to the one transcript"
        for first in match.shown_first:
            assert f"Rollout {first} shown first" in text
    assert {link[1:] for link in page.links()} <= set(page.ids())
    assert len(page.ids()) == len(set(page.ids()))
    assert ("carries no signal" in page.text()) == (n == 1)


@pytest.mark.few(5)
@pytest.mark.parametrize("topology", ["arena", "single"])
@pytest.mark.parametrize("n", [2, 3, 5, 8, 13, 16])
def test_the_bracket_has_a_place_for_every_match_and_as_many_byes_as_empty_places(n, topology, tmp_path):
    built = build(tmp_path, crowd(n, topology=topology))
    page, matches = page_of(built), built.ranking.groups[0].matches
    places = 1 << (n - 1).bit_length()
    assert page.count("li", "match") == sum(m.round > 0 for m in matches) == n - 1
    assert page.count("li", "bye") == places - n
    assert page.count("li", "open") == 0
    assert page.count("a", "champion") == 1
    assert page.count("table", "seeding") == (topology == "arena")
    best = next(r.index for r in built.ranking.groups[0].rollouts if r.rank == 0)
    assert [a["href"] for _, a in page.elements if "champion" in a.get("class", "")] == [f"#q1-r{best}"]


def test_a_tie_sends_the_better_seed_on_and_level_judging_is_said_to_tell_nothing(tmp_path):
    built = build(tmp_path, QuerySketch([RolloutSketch(answer=f"Answer {i}.") for i in range(4)]))
    page = page_of(built)
    assert "All 4 rollouts share one rank." in page.text()
    assert [a["href"] for _, a in page.elements if "champion" in a.get("class", "")] == ["#q1-r0"]
    assert "=1" in page.text("q1")


def test_two_rollouts_with_one_transcript_share_a_verdict_and_the_page_says_so(tmp_path):
    built = build(tmp_path, QuerySketch([RolloutSketch(answer="The same."), RolloutSketch(answer="The same.")]))
    assert "one verdict stands for both orders" in page_of(built).text("q1-m1")


@pytest.mark.parametrize("failing", [(3, 0), (0, 6)])
def test_a_seeding_match_that_is_open_keeps_the_bracket_from_beginning(failing, tmp_path):
    page = page_of(build(tmp_path, crowd(8, refuse=lambda *pair: pair == failing)))
    assert "The bracket has not begun." in page.text()
    assert page.count("table", "seeding") == 1
    assert "unranked" in page.text("q1")


@pytest.mark.parametrize("topology", ["arena", "single"])
def test_any_match_of_a_bracket_may_be_open(topology, tmp_path):
    whole = build(tmp_path / "whole", crowd(6, topology=topology)).ranking.groups[0].matches
    for match in (m for m in whole if m.round and not m.repeated):
        pair = (match.a, match.b)
        built = build(
            tmp_path / f"{match.round}-{match.a}", crowd(6, topology=topology, refuse=lambda *p, pair=pair: p == pair)
        )
        page, played = page_of(built), built.ranking.groups[0].matches
        assert page.count("li", "match") == sum(m.round > 0 for m in played)
        assert page.count("a", "champion") == 0
        assert page.count("details", "match") == len(played)
        assert f"Rollout {pair[0]} against rollout {pair[1]}" in page.text()
        if topology == "arena":
            assert page.count("li", "match") + page.count("li", "open") == 5


def test_matches_that_form_no_bracket_are_shown_round_by_round(tmp_path):
    built = build(tmp_path, crowd(4))
    group = built.ranking.groups[0]
    swiss = group.model_copy(update={"topology": "swiss", "matches": tuple(m for m in group.matches if m.round)})
    odd = group.model_copy(update={"matches": (*group.matches, group.matches[0].model_copy(update={"round": 1}))})
    for ranking in (swiss, odd):
        page = ParsedPage(render_page(built.reader, RankingFile(built.ranking.head, (ranking,), finished=True)))
        assert page.count("li", "match") == sum(m.round > 0 for m in ranking.matches)
        assert "Matches by round" in page.text()
