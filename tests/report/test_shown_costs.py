"""Wherever a cost is shown, it is exact, "at least" or unknown; what is not known is never shown as nothing."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.comparison.conclusions import side_figures
from harness.core.comparisons import ComparedQuery, ComparedRollout, Interval, SideFigures
from harness.report.summary.comparison import sides_rows
from tests.fake_endpoint import FakeEndpoint, Say, Script, fair_judge, searching_agent
from tests.fuzz.attacks import Room
from tests.fuzz.attempts import attempt

CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "exact": ({}, r"\$0\.0\d\d[1-9]|\$0\.\d\d", r"\$0\.00\d\d"),
    "at least": ({"cached": 2000}, r"≥ \$0\.0\d\d\d", r"at least \$0\.0\d\d\d"),
    "unknown": ({"tier": "a-new-one"}, "unknown", "cost unknown"),
}


def told(script: Script, more: dict[str, Any]) -> Script:
    """Return a script whose replies tell more of what they cost."""

    def reply(seen: Any) -> Any:
        said = script(seen)
        return replace(said, usage=(1000, 900), **more) if isinstance(said, Say) else said

    return reply


@pytest.mark.parametrize("case", CASES)
def test_every_total_says_how_far_it_is_known(case: str, tmp_path: Path):
    more, beside_label, in_sentence = CASES[case]
    room = Room.make(tmp_path / "room")
    with FakeEndpoint(told(searching_agent(), more), told(fair_judge(), more)).serving() as endpoint:
        environ = room.environ({"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "sk-test"})

        def printed(*argv: str) -> tuple[str, str]:
            outcome = attempt(argv, room.work, environ, reachable=endpoint.host)
            assert (outcome.code, outcome.faults()) == (0, []), outcome.err_text
            return outcome.out_text, outcome.err_text

        asked = ("--model", "gpt-5-mini", "--price-by-name", "-n", "2", "--topology", "anchor")
        _, err = printed("run", "Why?", *asked)
        table, listed, stats = (printed(*argv)[0] for argv in (("show",), ("ls",), ("stats",)))
        shown, runs = (json.loads(printed(command, "--json")[0]) for command in ("show", "ls"))
    (page,) = room.work.glob("runs/*/report.html")
    (group,) = shown["groups"]
    prices = [(r["price_usd"], r.get("price_usd_at_least")) for r in group["rollouts"]]
    prices += [(group["judge_usd"], group.get("judge_usd_at_least"))]
    prices += [(runs[0]["cost_usd"], runs[0].get("cost_usd_at_least"))]
    assert {(usd is None, part is None) for usd, part in prices} == {(case != "exact", case != "at least")}
    assert all(price for pair in prices for price in pair if price is not None)
    assert len(re.findall(beside_label, table)) >= 2, table
    assert len(re.findall(f"tokens, {in_sentence}", table)) == 2, table
    assert re.search(beside_label, listed), listed
    assert re.search(in_sentence, stats), stats
    text = re.sub("<[^>]+>", " ", page.read_text("utf-8"))
    assert re.search(rf"Cost\s+{beside_label}\s", text) or re.search(beside_label, text)
    assert ("cost unknown" in err) == (case != "exact"), err
    for output in (table, listed, stats, err):
        assert case == "exact" or "$0.00 " not in output
        assert "$0.0000" not in output


@pytest.mark.parametrize(
    ("prices", "shown"),
    [
        (((0.5, None), (0.25, None)), "$0.38 ["),
        (((0.5, None), (None, 0.25)), "≥ $0.38 ["),
        (((0.5, None), (None, None)), "≥ $0.25 ["),
        (((None, None), (None, None)), "–"),
    ],
)
def test_a_side_costs_at_least_what_is_known_of_its_rollouts(
    prices: tuple[tuple[float | None, float | None], ...], shown: str
):
    rollouts = tuple(
        ComparedRollout(index=index, role="sample", status="ok", usd=usd, usd_at_least=part)
        for index, (usd, part) in enumerate(prices)
    )
    queries = [
        ComparedQuery(query=f"q{n}", ids=("a", "b"), text="Why?", rollouts=(rollouts, rollouts)) for n in range(2)
    ]
    dear = SideFigures(label="b", rollouts=1, usd=Interval(value=1, low=1, high=1))
    rows = sides_rows([side_figures(queries, 0, "a", 0), dear])
    (row,) = [row for row in rows if row.label == "cost a rollout"]
    assert row.values[0].startswith(shown), row
