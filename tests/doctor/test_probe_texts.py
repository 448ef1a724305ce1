"""Probes of leanings: few, mostly of length, and each pair differs in its feature alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.answer_features import leaning_features
from harness.doctor.probing import MOST_PROBES, AnswerAtHand, padded, probes_from
from harness.judging.flags import Assignment, find_flags

PLAIN = "The sky scatters blue light. Red light passes. Dust makes it pale. At dusk the way is long."
MARKED = "## Sky\n\n- It scatters **blue** light.\n- Red passes."


def at_hand(*texts: str) -> list[AnswerAtHand]:
    return [AnswerAtHand("q", number, text) for number, text in enumerate(texts)]


def test_a_run_with_many_answers_gives_twenty_probes_fourteen_of_length():
    probes = probes_from(at_hand(*[f"{PLAIN} {MARKED if n % 3 == 0 else PLAIN} Case {n}." for n in range(30)]))
    assert len(probes) == MOST_PROBES
    assert sum(probe.differences[0] > 0.5 for probe in probes) == 14
    assert len({(probe.first, probe.second) for probe in probes}) == MOST_PROBES


@given(st.lists(st.text(max_size=200), max_size=8))
def test_at_least_half_of_the_probes_are_of_length_whatever_the_answers(texts: list[str]):
    probes = probes_from(at_hand(*texts))
    assert len(probes) <= MOST_PROBES
    lengthened = sum(probe.first.startswith(probe.second.rstrip()) for probe in probes)
    assert 2 * lengthened >= len(probes)


@pytest.mark.parametrize("times", [2, 3])
def test_a_padded_answer_is_longer_and_neither_formatted_nor_about_itself_nor_flagged(times: int):
    text = PLAIN * 20
    longer, before = leaning_features(padded(text, times)), leaning_features(text)
    assert len(padded(text, times)) == pytest.approx(times * len(text), rel=0.05)
    assert (longer.formatting, longer.of_itself) == (before.formatting, before.of_itself)
    assert not find_flags(Assignment("Why?"), path=None, answer=padded(PLAIN, times))


def test_equal_answers_of_a_query_make_one_probe_of_each_kind():
    once, thrice = (probes_from(at_hand(*[PLAIN] * times)) for times in (1, 3))
    assert [probe.first for probe in thrice] == [probe.first for probe in once]


def test_probes_of_formatting_and_of_talk_of_itself_are_hardly_longer_on_one_side():
    others = [probe for probe in probes_from(at_hand(PLAIN, MARKED)) if probe.differences[0] < 0.5]
    formatting, itself = ([probe for probe in others if probe.differences[at] > 0.1] for at in (1, 2))
    assert {probe.of.rollout for probe in formatting} == {0, 1}
    assert itself
    assert len(formatting) + len(itself) == len(others)
    assert all(abs(probe.differences[0]) < 0.25 for probe in others)
