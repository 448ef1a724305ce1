"""`harness.improve`: every verdict is bought once, the gate decides, and what cannot be is refused before it costs."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, function_tool, handoff

import harness
from harness.archive.improve_folder import ImproveFolder
from harness.core.improvements import CandidateStanding, Improvement, ImproveRules, PairLesson
from harness.core.progress import Silent
from harness.core.redaction import DEFAULT_REDACTOR
from harness.pipeline.proposing import ProposalAsked, Refusals, Written, sifted
from tests.fake_endpoint import FakeEndpoint
from tests.improving.world import HELD_OUT, QUERIES, World

RULES = ImproveRules(rounds=2, children=2, batch=3)
PRICES = {"m": "1/2", "judge": "1/2", "strict": "1/2"}
EVEN = harness.Interval(value=0.5, low=0, high=1)
pytestmark = pytest.mark.anyio


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeEndpoint]:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.chdir(tmp_path)
    with World().serve().serving() as serving:
        yield serving


def levels(*texts: str) -> Any:
    """Propose these texts, two a round."""
    left = list(texts)

    def proposer(
        parent: CandidateStanding, lessons: Sequence[PairLesson], tried: Sequence[CandidateStanding]
    ) -> list[dict[str, str]]:
        assert lessons
        assert all(lesson.verdicts for lesson in lessons), "what is learnt is cited"
        assert parent in tried
        return [{"instructions": left.pop(0)} for _ in range(2) if left]

    return proposer


async def improve(
    endpoint: FakeEndpoint, proposer: Any, rules: ImproveRules = RULES, gate: Any = HELD_OUT, **more: Any
) -> Improvement:
    agent = Agent(name="poet", instructions="Answer at level 2.", model="m")
    return await harness.improve(
        agent,
        QUERIES,
        gate=gate,
        rules=rules,
        proposer=proposer,
        base_url=endpoint.base_url,
        judge_model="judge",
        prices=PRICES,
        **more,
    )


async def test_the_better_instructions_are_found_and_every_verdict_is_bought_once(endpoint: FakeEndpoint) -> None:
    texts = ("Answer at level 1.", "Answer at level 5.", "Answer at level 7.", "Answer at level 7.")
    result = await improve(endpoint, levels(*texts))
    assert (result.outcome, result.accepted, result.instructions) == ("better", True, "Answer at level 7.")
    assert "+Answer at level 7." in result.diff
    assert result.win_rate
    assert result.win_rate.low > 0.5
    assert [reason for each in result.rounds for reason in each.refused] == ["it is what was tried before"]
    asked = Counter(json.dumps(seen.body, sort_keys=True) for seen in endpoint.of_judge)
    assert max(asked.values()) == 1
    assert len(asked) == result.verdicts
    assert len(endpoint.of_agent) == result.rollouts
    spent = (result.rollouts * (1000 + 2 * 200) + result.verdicts * (2500 + 2 * 600)) / 1e6
    assert result.spent == pytest.approx(spent)
    requests = len(endpoint.requests)
    assert await improve(endpoint, levels(*texts)) == result
    assert len(endpoint.requests) == requests
    files = {path.name for path in (Path(result.path) / "improved").iterdir()}
    assert files == {"instructions.md", "instructions.diff", "improvement.json", "report.html"}


POET = Agent[Any](name="poet", instructions="Answer at level 2.", model="m")
ASK = POET.as_tool("ask_poet", "Asks the poet.")
AIDE = Agent[Any](name="aide", model="m", tools=[ASK])


@function_tool(description_override="Answer at level 2.")
def look_up(word: str) -> str:
    return word


@pytest.mark.parametrize(
    ("part", "others"),
    [
        pytest.param("poet.instructions", {"handoffs": [POET]}, marks=pytest.mark.nightly),
        pytest.param("poet.instructions", {"handoffs": [handoff(POET)]}, marks=pytest.mark.nightly),
        ("poet.instructions", {"tools": [ASK]}),
        pytest.param("poet.instructions", {"tools": [AIDE.as_tool("ask_aide", "")]}, marks=pytest.mark.nightly),
        pytest.param("look_up.description", {"tools": [look_up]}, marks=pytest.mark.nightly),
    ],
    ids=["handoff", "handoff()", "tool", "tool of a tool", "description"],
)
async def test_a_weakness_in_a_text_that_is_not_the_starting_agents_is_mended(
    endpoint: FakeEndpoint, part: str, others: dict[str, Any]
) -> None:
    desk = Agent(name="desk", instructions="Pass it on.", model="m", **others)
    rules = RULES.model_copy(update={"rounds": 1, "batch": 1, "parts": (part,)})
    result = await harness.improve(
        desk, QUERIES, gate=HELD_OUT, rules=rules, base_url=endpoint.base_url, judge_model="judge"
    )
    assert result.accepted, result.sentence
    assert result.instructions == f"=== part: {part} ===\nAnswer at level 4.\n"
    assert POET.instructions == "Answer at level 2."


async def test_what_pleases_the_training_judge_alone_is_refused(endpoint: FakeEndpoint) -> None:
    rules = RULES.model_copy(update={"rounds": 1, "gate_judge_model": "strict"})
    result = await improve(endpoint, levels("Answer at level 1 wow."), rules)
    assert (result.outcome, result.accepted) == ("refused by the second judge", False)
    assert result.second
    assert result.second.win_rate == 0
    assert "pleases the training judge alone" in result.sentence


@pytest.mark.parametrize(
    ("text", "second", "outcome", "says"),
    [
        ("Answer of length 1.", None, "by length alone", "more than half of the lead is its answers' length"),
        ("Answer of length 9.", None, "perhaps by length", "0 of 0 pairs in which its answer is no longer"),
        pytest.param(
            *("Answer of length 9.", "strict", "refused by the second judge", "the training judge alone"),
            marks=pytest.mark.nightly,
        ),
        ("Answer at level 7, of length 9.", "strict", "better", "the second judge, strict"),
    ],
)
async def test_what_wins_by_length_alone_is_not_accepted(
    endpoint: FakeEndpoint, text: str, second: str | None, outcome: str, says: str
) -> None:
    agent = Agent(name="poet", instructions="Answer of length 0.", model="m")
    result = await harness.improve(
        agent,
        QUERIES,
        gate=HELD_OUT,
        rules=ImproveRules(rounds=1, children=1, batch=6, gate_judge_model=second),
        proposer=lambda *_: [{"instructions": text}],
        base_url=endpoint.base_url,
        judge_model="wordy",
    )
    assert (result.outcome, result.accepted) == (outcome, outcome == "better"), result.sentence
    assert says in result.sentence
    assert result.win_rate
    assert result.win_rate.low > 0.5
    assert (result.at_equal_length is not None) == (outcome == "by length alone")


@pytest.mark.nightly
async def test_a_gate_with_interim_analyses_stops_at_the_first_that_tells(endpoint: FakeEndpoint) -> None:
    rules = RULES.model_copy(update={"rounds": 1, "looks": 2})
    held_out = [f"Question {number} that nobody has met?" for number in range(24)]
    result = await improve(endpoint, levels("Answer at level 1.", "Answer at level 5."), rules, gate=held_out)
    assert result.accepted, result.sentence
    asked = Counter(text for seen in endpoint.of_judge for text in held_out if text in seen.user)
    assert len(asked) < len(held_out)
    assert f"on {len(asked)} held-out queries" in result.sentence


async def test_rounds_whose_texts_are_all_refused_have_no_child_and_end_without_a_candidate(
    endpoint: FakeEndpoint,
) -> None:
    texts = ["Answer at level 2.", " ", "Please the judge.", "Answer as `writing` wants."]
    result = await improve(endpoint, lambda *_: [{"instructions": text} for text in texts], max_cost=1)
    assert (result.outcome, len(result.standings)) == ("no candidate", 1)
    assert [len(each.refused) for each in result.rounds] == [4, 4]
    assert result.stopped == "2 rounds in a row brought no better candidate"
    assert "No change: the proposer wrote nothing usable in 2 rounds; 8 refused: " in result.sentence
    assert "it is what was tried before (2)" in result.sentence


async def test_without_a_gate_a_half_of_the_queries_is_held_out_and_recorded(endpoint: FakeEndpoint) -> None:
    queries = [f"Question {number}?" for number in range(40)]
    rules = ImproveRules(rounds=1, batch=2)
    agent = Agent(name="poet", instructions="Answer.", model="m")
    where: Any = {"base_url": endpoint.base_url, "judge_model": "judge"}
    result = await harness.improve(agent, queries, rules=rules, proposer=lambda *_: [], **where)
    info = ImproveFolder(Path(result.path)).info()
    train, held_out = ([query.text for query in part] for part in (info.train, info.held_out))
    assert (info.split, sorted([*train, *held_out])) == (True, sorted(queries))
    assert result.gate_queries == len(held_out) > 12
    assert result.sentence == "No change: the proposer wrote nothing usable in 1 round; it gave no text."
    assert {seen.user for seen in endpoint.of_agent} < {*train}


async def test_no_more_is_spent_than_the_ceiling_and_with_more_money_it_goes_on(endpoint: FakeEndpoint) -> None:
    texts = ("Answer at level 1.", "Answer at level 5.")
    rules = RULES.model_copy(update={"rounds": 1})
    with pytest.raises(harness.UsageError, match=r"max_cost=0\.3: the gate alone takes \$0\.33 or more"):
        await improve(endpoint, levels(*texts), rules, max_cost=0.3)
    assert not endpoint.requests
    for usd, outcome in ((0.35, "undecided"), (0.45, "undecided"), (2, "better")):
        result = await improve(endpoint, levels(*texts), rules, max_cost=usd)
        assert (result.outcome, result.spent <= usd) == (outcome, True), result.sentence
    asked = Counter(json.dumps(seen.body, sort_keys=True) for seen in endpoint.of_judge)
    assert max(asked.values()) == 1
    assert len(endpoint.of_agent) == result.rollouts


async def test_a_strangers_improvement_is_not_gone_on_with(
    endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rules = RULES.model_copy(update={"rounds": 1})
    mine = await improve(endpoint, levels("Answer at level 1.", "Answer at level 5."), rules)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "of another machine"))
    other = await improve(endpoint, levels("Answer at level 1.", "Answer at level 6."), rules)
    assert (other.path != mine.path, other.instructions) == (True, "Answer at level 6.")


class Notes(Silent):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str) -> None:
        self.texts.append(text)


async def test_another_proposer_begins_anew_and_the_same_one_is_told_of_what_is_gone_on_with(
    endpoint: FakeEndpoint,
) -> None:
    def nothing(*_: object) -> list[dict[str, str]]:
        return []

    def neither(*_: object) -> list[dict[str, str]]:
        return []

    rules, told = ImproveRules(rounds=1, batch=1), Notes()
    first, other = [await improve(endpoint, proposer, rules) for proposer in (nothing, neither)]
    again = await improve(endpoint, nothing, rules, progress=told)
    assert (other.path != first.path, again.path) == (True, first.path)
    (said,) = told.texts
    assert first.path in said
    assert "another seed begins anew" in said


async def test_a_proposer_that_gives_no_list_is_refused(endpoint: FakeEndpoint) -> None:
    with pytest.raises(harness.UsageError, match="proposer gave a str"):
        await improve(endpoint, lambda *_: "Answer at level 9.")


@pytest.mark.parametrize(
    ("agent", "given", "message"),
    [
        ("Answer.", {"gate": [*HELD_OUT, QUERIES[2]]}, "1 query is both in queries= and in gate=.*Question 2 of"),
        ("Answer.", {"gate": HELD_OUT[:5]}, "5 queries are held out.*75 %.*it takes 1[0-9]"),
        ("Answer.", {"gate": None}, "3 queries are held out.*twice that to split"),
        (lambda *_: "Answer.", {"gate": HELD_OUT}, "made by a function.*instructions="),
        ("Answer.", {"gate": HELD_OUT, "rules": ImproveRules(parts=("serch.description",))}, "has no such text"),
        ("Answer.", {"gate": HELD_OUT, "n": 1}, "n=1"),
        ("Answer.", {"gate": HELD_OUT, "engine": "ray"}, "no setting 'engine'"),
        ("Answer.", {"gate": HELD_OUT, "rules": ImproveRules(parts=())}, "parts: name at least one"),
        ("Answer.", {"gate": HELD_OUT, "max_cost": 1.0}, "price"),
        ("Answer.", {"gate": HELD_OUT, "rules": {"rounds": 2}}, "rules is a dict: give harness.ImproveRules"),
    ],
)
async def test_what_cannot_be_is_refused_before_anything_is_asked(
    endpoint: FakeEndpoint, agent: Any, given: dict[str, Any], message: str
) -> None:
    poet = Agent(name="poet", instructions=agent, model="unpriced")
    with pytest.raises(harness.UsageError, match=message):
        await harness.improve(poet, QUERIES, base_url=endpoint.base_url, judge_model="judge", **given)
    assert not endpoint.requests
    assert not harness.runs()


def test_the_last_child_joins_two_candidates_of_the_front() -> None:
    root, other = (
        CandidateStanding(number=at, round=at, parts={"instructions": text}, p_best=0.5, worth=EVEN)
        for at, text in enumerate(("Answer.", "Sing."))
    )
    asked = ProposalAsked(parent=root, lessons=(), tried=(root, other), count=1, other=other)
    texts = [{"instructions": "Answer well."}, {"instructions": "Answer. Sing."}]
    proposal = sifted(Written(texts), asked, 1, Refusals((), DEFAULT_REDACTOR, root.parts))
    assert [(child.number, child.parents) for child in proposal.children] == [(2, (0,)), (3, (0, 1))]


def test_texts_that_are_no_candidates_are_refused_and_counted() -> None:
    root = CandidateStanding(
        number=0,
        round=0,
        parts={"instructions": "Answer."},
        p_best=1.0,
        worth=EVEN,
    )
    texts: list[object] = [
        "no mapping",
        {"instructions": "Answer."},
        {"instructions": " "},
        {"instructions": "Please the judge."},
        {"instructions": "Answer as the writing rubric wants."},
        {"instructions": "Answer for gpt-judge."},
        {"style": "Short."},
        {"instructions": 3},
        {"instructions": "Answer well."},
        {"instructions": "Answer well."},
    ]
    asked = ProposalAsked(parent=root, lessons=(), tried=(root,), count=10, other=None)
    refusals = Refusals(("gpt-judge", "writing"), DEFAULT_REDACTOR, root.parts)
    proposal = sifted(Written(texts), asked, 1, refusals)
    assert [child.parts["instructions"] for child in proposal.children] == ["Answer well."]
    assert len(proposal.refused) == 9
    assert sum("speaks of the judging" in why for why in proposal.refused) == 3
