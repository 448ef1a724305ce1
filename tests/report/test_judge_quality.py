"""How far to believe the judge: the words follow the figures."""

import itertools
import json

import pytest

from harness.ranking.judge_stats.tally import JudgeCall, Tally, tally
from harness.report.json import quality_json
from harness.report.judge_quality import JudgeQuality, judge_lines, judge_qualities, quality_figures, warnings
from harness.report.summary.ranking import summarize
from tests.report.archives_by_hand import EVIL, build, crowd
from tests.report.parsed_page import page_of


def of(margin, n: int = 5, both: bool = True) -> Tally:
    balanced = [(i, j) if (i + j) % 2 else (j, i) for i, j in itertools.combinations(range(n), 2)]
    pairs = itertools.permutations(range(n), 2) if both else balanced
    return tally([JudgeCall(str(i), str(j), 5 + margin(i, j) / 2, 5 - margin(i, j) / 2) for i, j in pairs])


def meanings_of(t: Tally, order: str = "both") -> dict[str, str]:
    return {r.name: r.meaning for r in quality_figures(t, order)}


def test_position_that_decides_is_called_noise_and_no_bias_beside_it():
    t = of(lambda _i, _j: 3.0)
    assert warnings(t, "both") == [
        "its ranking is noise: in 10 of 10 pairs it named the side shown first, whichever answer that was"
    ]
    assert meanings_of(t)["one_order"].startswith("neither would do")
    assert "shown second" in warnings(of(lambda _i, _j: -3.0), "both")[0]


@pytest.mark.parametrize(
    ("order", "cure"),
    [("both", "judging both orders cancels it"), ("balanced", "cancel most of it"), ("single", "nothing cancels it")],
)
def test_a_bias_is_told_with_what_the_order_makes_of_it(order, cure):
    t = of(lambda i, j: 0.5 * (j - i) + 2.0, n=8, both=order == "both")
    (warning,) = warnings(t, order)
    assert "standing first is worth 1.9" in warning
    assert cure in warning
    assert cure in meanings_of(t, order)["first_side"]


def test_a_sound_judge_is_warned_of_in_nothing():
    t = of(lambda i, j: 0.5 * (j - i), n=8)
    assert warnings(t, "both") == []
    meanings = meanings_of(t)
    assert meanings["flips"] == "rarely: the order shown hardly matters"
    assert meanings["first_wins"].startswith("50 % is unbiased")
    assert "make a ranking, or nearly" in meanings["cycles"]


def test_a_judge_that_goes_round_is_told_from_coin_tosses():
    wins = {(0, 1), (1, 2), (2, 0)}
    t = of(lambda i, j: 2.0 if (i, j) in wins else -2.0, n=3)
    assert t.cycles.part == t.cycles.whole == 1
    assert "hardly make a ranking" in meanings_of(t)["cycles"]


def test_nothing_judged_has_a_reading_for_every_figure():
    figures = quality_figures(Tally(), "both")
    assert all(r.value and r.meaning for r in figures)
    assert warnings(Tally(), "both") == []
    quality = JudgeQuality("j", "r", Tally(), (), tuple(figures), ())
    assert json.loads(json.dumps(quality_json(quality), allow_nan=False))["flips"]["share"] is None


def test_the_judge_is_named_where_there_are_several():
    t = of(lambda _i, _j: 3.0)
    assert judge_lines({"one": t}, "both")[0].startswith("judge: its")
    assert [line.split(":")[0] for line in judge_lines({"one": t, "two": t}, "both")] == ["judge one", "judge two"]


def test_the_page_has_a_table_a_judge_with_every_figure_and_its_reading(tmp_path):
    built = build(tmp_path, crowd(6), judge=f"judge {EVIL[:40]}")
    page = page_of(built)
    (quality,) = judge_qualities(built.reader, built.ranking, summarize(built.reader, built.ranking))
    for figure in quality.figures:
        assert figure.label in page.text()
        assert figure.meaning in page.text()
    assert "How far to believe the judge" in page.text()


def test_failed_verdicts_are_counted_for_the_judge_that_owes_them(tmp_path):
    built = build(tmp_path, crowd(4, refuse=lambda first, second: (first, second) == (2, 0)))
    (quality,) = judge_qualities(built.reader, built.ranking, summarize(built.reader, built.ranking))
    assert quality.tally.failed == 1
    assert quality.tally.verdicts > 0


def test_failed_verdicts_are_told_apart_by_whether_other_jurors_stand():
    again = "; `harness rescore` asks again"
    assert meanings_of(Tally())["failed"] == "none is missing"
    assert meanings_of(Tally(failed=2))["failed"] == f"their matches are open{again}"
    assert meanings_of(Tally(failed=2, stood_in=2))["failed"] == f"the other jurors' verdicts stand{again}"
    some = meanings_of(Tally(failed=3) + Tally(failed=2, stood_in=2))["failed"]
    assert some == f"the other jurors' verdicts stand for 2, the matches of the others are open{again}"
