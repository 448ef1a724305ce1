"""Which claims of an answer stand in its tools' outputs."""

from typing import Any

import pytest

from benchmarks.evidence import HELD_OUT, planted_answers, tally
from harness.core.errors import UsageError
from harness.core.records import Query, Rollout, Step, Trajectory
from harness.evidence.check import check_evidence, check_trajectory, evidence_reward
from harness.evidence.claims import MOST_CLAIMS
from tests.builders import a_rollout

PROSE = (
    "Vaduz has 5,696 people on 17.3 km². In 2019 turnover was 41.3 % of €12 million. Founded on 12 May 1866 and\n"
    "closed on 3 Jan 1901, at 10:30. Ask Jane.Doe@Example.org. https://www.example.com/a/page?x=1#top, sums_2019.csv\n"
    "and `load_sums()`. “The river rose – and fell – in one night,” it says."
)
ROWS = "[1] Ships (ships.md)\n| Alva | 29 crates | 12 km | 3 hours |\n| Esk | 40 crates | 25 km | 2 hours |"
JSON = '{"share_pct": 64, "temp": "68 °F", "size": "2 GB"}'

SUPPORTED = """
5,696 people | 5696 | 17.3 km² | 17.3 square kilometres | 17.3 sq km | 41.3% | 41.3 percent | 41.3 per cent | 12-km
€12M | €12 million | 12 million euros | €0.012bn | “€12 million” | 12 May 1866 | May 12, 1866 | 1866-05-12 | 12.05.1866
1901-01-03 | January 3rd, 1901 | Jan. 3, 1901 | 3 January | May 1866 | 1866 | the 1860s | 10:30 | jane.doe@example.org
https://example.com/a/page?x=1 | https://www.example.com/ | www.example.com/a/page?x=1. | sums_2019.csv | load_sums
`load_sums` | load_sums() | “the river  ROSE - and fell” | "The river … in one night" | [1] | 64 % | 68 °F | 2 GB
29 crates over 12 kilometres
"""
DERIVABLE = """
Vaduz counts 5.7k people | Vaduz: 6.68 square miles | Vaduz: 1,730 hectares | turnover of 41 % | temp 20 °C
founded 1866 and closed 1901: 35 years | size 2,000 MB | Alva: 7.46 miles
"""
UNSUPPORTED = """
5,697 people | 17.3 kg | 41.4 % | €12 thousand | 12 May 1867 | 13 May 1866 | June 1866 | 1902 | the 1870s | 10:31
john.doe@example.org | doe@example.org | https://example.com/a/page | https://example.com/b | https://sub.example.com
sums_2020.csv | ums_2019.csv | load_sum() | load_sums_all | “the river fell and rose” | “one night … the river rose”
[2] | 29 % | Alva: 70 km | Vaduz: 45 years
"""
NO_CLAIMS = (
    *("There are 3 reasons, and 12 more.", "1. First\n2. Second", "```\nx = 4711\n```", "“so called”", ""),
    *("JavaScript on GitHub", "Sales rose.", "[7] is our own.\n\n[7]: a book"),
)


def each(table: str) -> list[str]:
    return table.strip().replace("\n", " | ").split(" | ")


@pytest.mark.parametrize(
    ("text", "state"),
    [
        *((text, "supported") for text in each(SUPPORTED)),
        *((text, "derivable") for text in each(DERIVABLE)),
        *((text, "unsupported") for text in each(UNSUPPORTED)),
    ],
)
def test_a_claim_is_supported_derivable_or_unsupported(text: str, state: str):
    claims = check_evidence(f"It is said: {text}", [PROSE, ROWS, JSON])
    states = [claim.state for claim in claims]
    assert state in states, claims
    assert state == "derivable" or set(states) == {state}, claims


@pytest.mark.parametrize("text", NO_CLAIMS)
def test_what_states_no_fact_is_no_claim(text: str):
    assert check_evidence(text, [PROSE]) == []


def test_a_claim_names_the_output_that_holds_it_and_where_it_stands_in_the_answer():
    answer = "On 17.3 km² there are 40,000 crates, 29 crates of Alva, 12 km, since 1789 and 1812."
    found = [(c.text, c.kind, c.state, c.step) for c in check_evidence(answer, ["", PROSE, ROWS], "in 1812?", "1789")]
    assert found == [
        ("17.3 km²", "number", "supported", 2),
        ("40,000", "number", "unsupported", None),
        ("12 km", "number", "supported", 3),
        ("1789", "date", "supported", None),
        ("1812", "date", "supported", None),
    ]
    assert all(answer[c.start :].startswith(c.text) for c in check_evidence(answer, [PROSE]))


def test_a_number_is_derived_only_from_the_twenty_nearest_numbers():
    crowd = "\n".join(f"Lot {n} took {n * n} kg and {n * 7} kg." for n in range(30, 200))
    near = "Mill Elm took 4,310 kg and 1,207 kg."
    (claim,) = check_evidence("At mill Elm it was 5,517 kg together.", [f"{crowd}\n{near}"])
    assert claim.state == "derivable"
    (claim,) = check_evidence("Taken together it was 1,110 kg.", [f"{crowd}\n{near}"])  # 30 * 30 + 30 * 7
    assert claim.state == "unsupported"


def rollout(*path: Step, answer: str = "", answer_type: Any = "text") -> Rollout:
    answered = Trajectory(query="How far?", path=path, answer=answer, answer_type=answer_type)
    return a_rollout(0, trajectory=answered)


def test_the_reward_is_the_share_of_claims_that_tools_agents_used_as_tools_or_errors_hold():
    inner = Step(kind="tool", tool_name="map", tool_output="12 km to Alva")
    path = (
        Step(kind="message"),
        Step(kind="tool", tool_name="ask", tool_output="done", inner=(inner,), error="lost 30 %"),
    )
    query = Query(id="q", text="How far?", reference="2 hours")
    answer = "12 km, or 7.46 miles to Alva, in 2 hours, but 30 % were lost and 41 % late."
    assert evidence_reward(rollout(*path, answer=answer), query) == 4 / 5
    assert [c.step for c in check_trajectory(rollout(*path, answer=answer).trajectory) or ()] == [2, 2, None, 2, None]
    assert evidence_reward(rollout(*path, answer="Far."), query) is None


@pytest.mark.parametrize(
    "path",
    [
        (),
        (Step(kind="message"), Step(kind="tool", tool_name="send", tool_output="")),
        (Step(kind="tool", tool_name="web_search", tool_type="hosted"), Step(kind="tool", tool_output="41 %")),
    ],
)
def test_an_answer_whose_tools_outputs_are_not_in_the_record_is_not_checked(path: tuple[Step, ...]):
    made = rollout(*path, answer="41 %")
    assert check_trajectory(made.trajectory) is None
    assert evidence_reward(made, Query(id="q", text="?")) is None


def test_only_the_values_of_an_answer_in_json_hold_claims():
    answer = '{"crate_count": "29 of all the crates", "share": "41 %"}'
    made = rollout(Step(kind="tool", tool_output="x"), answer=answer, answer_type="json")
    assert [claim.text for claim in check_trajectory(made.trajectory) or ()] == ["41 %"]


def test_unsupported_claims_of_planted_answers_are_found_with_a_precision_of_98_and_a_recall_of_95_percent():
    found = tally(planted_answers(HELD_OUT, 60, rng=7))["all"]
    assert found.planted > 100
    assert found.precision >= 0.98
    assert found.recall >= 0.95


@pytest.mark.parametrize(
    "unit",
    [
        '"a b c ',
        "“a b c ",
        "```",
        "a@b.c.",
        "a_",
        "1,",
        "1 ",
        "1.5 % ",
        "May 12, ",
        "[1,",
        "http://a.b/c ",
        "e\u0301\u0316",
        "1 a 2 b\n",
    ],
)
def test_a_hostile_text_is_checked_to_the_end(unit: str):
    """Time in proportion to the text: a square of it would outlast the test's patience."""
    text = unit * (100_000 // len(unit))
    assert len(check_evidence(text, [text])) <= MOST_CLAIMS


@pytest.mark.parametrize(("outputs", "query"), [("a text", "q"), ([1], "q"), (["x"], None)])
def test_arguments_of_another_kind_are_refused(outputs: Any, query: Any):
    with pytest.raises(UsageError, match="give a"):
        check_evidence("x", outputs, query)
