"""Arguments that cannot be used: UsageError that names the argument, before anything is spent."""

from collections.abc import Awaitable, Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agents import Agent

import harness
from harness.api.best_answer import best_from
from tests.api.test_messages import chat
from tests.builders import a_group, a_rollout
from tests.fake_endpoint import FakeEndpoint, list_judge

pytestmark = pytest.mark.anyio
AGENT = Agent(name="plain", model="gpt-5.2")
CHATS = [chat("good"), chat("bad")]
Function = Callable[..., Awaitable[Any]]


class OwnJudge:
    """A judge of the caller's own that gives what it was made with."""

    identity, rubric_label = "own", "own"

    def __init__(self, verdict: object = None) -> None:
        self.verdict = verdict

    def key(self, task: harness.Task, first: harness.Transcript, second: harness.Transcript) -> str:
        return f"{task.query_id}-{first.hash}-{second.hash}"

    async def __call__(self, task: harness.Task, first: harness.Transcript, second: harness.Transcript) -> Any:
        return self.verdict


class Unnamed(OwnJudge):
    identity: Any = 3


async def best_of(**arguments: Any) -> harness.Best:
    return await harness.best_of(AGENT, "Why?", **arguments)


async def rollout(**arguments: Any) -> harness.Group:
    return await harness.rollout(AGENT, "Why?", **arguments)


async def rank(**arguments: Any) -> harness.GroupRanking:
    query = harness.Query(id="q", text="Why?")
    return await harness.rank(harness.Group(query=query, rollouts=()), **arguments)


async def run(**arguments: Any) -> harness.Run:
    return await harness.run(AGENT, "Why?", n=2, **arguments)


async def ruler(**arguments: Any) -> Any:
    return await harness.ruler(CHATS, "j", **arguments)


async def rank_messages(**arguments: Any) -> Any:
    return await harness.rank_messages(CHATS, judge_model="j", **arguments)


async def open_run(**arguments: Any) -> harness.Run:
    return harness.open(**arguments)


async def runs(**arguments: Any) -> Any:
    return harness.runs(**arguments)


async def import_run(**arguments: Any) -> harness.Run:
    return harness.import_run(**arguments)


@pytest.fixture
def at_endpoint(endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeEndpoint:
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
    monkeypatch.chdir(tmp_path)
    return endpoint


WRONG: list[tuple[Function, dict[str, Any], str]] = [
    *((best_of, {"deadline": value}, "deadline=.*seconds above 0") for value in ("2", True, [1])),
    *((best_of, {"deadline": value}, "deadline .*seconds above 0") for value in (0, -1, float("nan"), float("inf"))),
    *(
        (function, {"n": n}, f"n={n!r}: give a whole number")
        for function in (best_of, rollout)
        for n in ("4", True, 2.5)
    ),
    *((function, {"store": "x"}, "store='x': .*harness.Store; .*put_blob") for function in (best_of, rollout, rank)),
    (rank_messages, {"store": harness.MemoryStore}, "store=.*a class"),
    *((f, {"progress": print}, "progress=.*harness.Progress; .*retried") for f in (best_of, rollout, rank, run)),
    (best_of, {"progress": harness.Silent}, r"a class; .*Silent\(\)"),
    *((function, {"judge": ["a", "b"]}, "judge_model= takes the names of a jury") for function in (best_of, rank)),
    *((function, {"judge": judge}, "judge=.*rubric_label") for function in (best_of, rank) for judge in (3, object())),
    *((function, {"judge": OwnJudge}, "a class; give an object") for function in (best_of, rank)),
    *((function, {"approve": ["x"]}, "approve=.*'plain' has no tool of this name") for function in (best_of, run)),
    (best_of, {"judge": Unnamed()}, "identity must be texts"),
    (best_of, {"judge": " "}, "give a model's name"),
    *((f, {"judge": "a", "judge_model": "b"}, "judge='a' with judge_model='b'") for f in (best_of, rank)),
    (best_of, {"judge": OwnJudge(), "judge_model": "b"}, "both name the judge"),
    *((best_of, {"on_judge_failure": word}, "on_judge_failure") for word in ("first", [], None)),
    (run, {"reuse": "last"}, "reuse='last': give a list of runs"),
    (run, {"clock": 3}, "clock=3: give a function"),
    (run, {"progress": object()}, "progress="),
    *((ruler, {"rng": rng}, "rng=") for rng in ("x", None, 0.5)),
    *((ruler, {"budget": budget}, "budget=") for budget in ("x", None, True)),
    (ruler, {"rubric": Path("x.md")}, "rubric="),
    *((function, {"tools": {"a": 1}}, "tools=") for function in (ruler, rank_messages)),
    *((ruler, {name: "no"}, f"{name}='no': give True or False") for name in ("debug", "swallow_exceptions")),
    (ruler, {"extra_request": 3}, "extra_request=3: give a mapping"),
    (ruler, {"base_url": 3}, "^base_url=: "),
    (ruler, {"timeout": "soon"}, "^timeout='soon'"),
    (ruler, {"api": "soap"}, "^api='soap'"),
    (rank_messages, {"n": 2}, "no setting 'n'"),
    (rank_messages, {"judge": OwnJudge()}, "judge="),
    (rank_messages, {"first_is_anchor": 1}, "first_is_anchor=1"),
    (harness.resume, {"retry_failed": "no"}, "retry_failed="),
    (harness.rescore, {"free": "no"}, "free="),
    (harness.quote, {"trust_archive": 1}, "trust_archive="),
    (harness.replay, {"rollout": "1"}, "rollout="),
    (harness.validate, {"repair": "yes"}, "repair="),
    *(
        (function, {"run": 3}, "run=3: give a harness.Run")
        for function in (harness.rescore, open_run, harness.validate)
    ),
    *((function, {"runs_dir": 3}, "runs_dir=3: give a folder") for function in (open_run, runs, harness.resume)),
    (import_run, {"files": 3}, "files=3: give a path"),
    (import_run, {"files": ["a.jsonl", 3]}, "give a path, or a list of paths"),
    (import_run, {"files": "a.jsonl", "format": "csv"}, "format='csv': give one of 'messages', 'atif'"),
    (import_run, {"files": "a.jsonl", "first_is_anchor": "no"}, "first_is_anchor='no'"),
    (import_run, {"files": "a.jsonl", "name": None}, "name="),
    (harness.check_setup, {"live": "no"}, "live='no': give True or False"),
    (harness.check_setup, {"ports": 80}, "ports=80: give a list of ports"),
    (harness.check_setup, {"agent": AGENT}, "agent=.*name or file"),
    (harness.check_setup, {"temprature": 1.0}, "temprature"),
    (harness.check_judge, {"pairs": 3}, "pairs=3: give a file"),
    (harness.check_judge, {"progress": print}, "progress=.*harness.Progress"),
]


@pytest.mark.parametrize(("function", "arguments", "why"), WRONG)
async def test_an_argument_of_the_wrong_kind_is_named_before_anything_is_spent(
    at_endpoint: FakeEndpoint, function: Function, arguments: dict[str, Any], why: str
):
    with pytest.raises(harness.UsageError, match=why):
        await function(**arguments)
    assert not at_endpoint.requests
    assert not Path("runs").exists()  # noqa: ASYNC240


async def test_a_call_that_python_refuses_is_left_to_python():
    with pytest.raises(TypeError, match="querry"):
        await harness.replay(querry="x")  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize("verdict", [None, 3, {"score": 1}])
async def test_a_judge_of_ones_own_that_returns_no_verdict_fails_in_clear_words(
    at_endpoint: FakeEndpoint, verdict: object
):
    said = "the judge OwnJudge returned .*give a harness.Judged"
    group = await harness.rollout(AGENT, "Why?", n=2)
    with pytest.raises(harness.JudgeFailed, match=said):
        await harness.rank(group, OwnJudge(verdict))
    with pytest.raises(harness.JudgeFailed, match=said):
        await harness.best_of(AGENT, "Why?", 2, OwnJudge(verdict), on_judge_failure="raise")
    best = await harness.best_of(AGENT, "Why?", 2, OwnJudge(verdict))
    assert not best.judged
    assert "the judge OwnJudge returned" in best.why


@pytest.mark.parametrize("queries", [[], (), iter(())])
async def test_no_query_is_refused_and_no_run_is_left(at_endpoint: FakeEndpoint, queries: Any):
    with pytest.raises(harness.UsageError, match="there is no query"):
        await harness.run(AGENT, queries, n=2, judge_model="j")
    assert not at_endpoint.requests
    assert not harness.runs()


async def test_queries_of_another_kind_are_refused(at_endpoint: FakeEndpoint):
    with pytest.raises(harness.UsageError, match="not 3"):
        await harness.run(AGENT, 3, n=2)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    assert not at_endpoint.requests


async def test_a_query_that_stands_twice_is_quoted(at_endpoint: FakeEndpoint):
    with pytest.raises(
        harness.UsageError, match=r"query 1: .*twice, here of 'Why\?'; give each query an id of its own"
    ):
        await harness.run(AGENT, ["Why?", "Why?"], n=2)
    assert not at_endpoint.requests


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"jurry": "mean"}, "did you mean 'jury'"),
        ({"timeout": -1}, "timeout"),
        ({"rng": "x"}, "rng"),
        ({"api": "soap"}, "api"),
    ],
)
async def test_what_the_caller_got_wrong_is_never_swallowed(
    at_endpoint: FakeEndpoint, arguments: dict[str, Any], why: str
):
    with pytest.raises(harness.UsageError, match=why):
        await ruler(swallow_exceptions=True, **arguments)
    with pytest.raises(harness.UsageError, match="trajectory 0"):
        await harness.ruler([["Why?"]], "j", swallow_exceptions=True)  # type: ignore[list-item] # pyright: ignore[reportArgumentType]
    assert not at_endpoint.requests


class Scalar:
    """A number as NumPy and PyTorch hold one."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __float__(self) -> float:
        return self.value


class bool_(Scalar):  # noqa: N801 - NumPy's name
    pass


async def test_a_reward_may_be_any_librarys_number():
    rewards = [Scalar(0.25), np.float32(0.25), np.int64(1), Decimal("0.25"), Fraction(1, 4), 1]
    chats: list[Any] = [{"messages": chat(f"good {at}"), "reward": reward} for at, reward in enumerate(rewards)]
    scores = await harness.ruler(chats, "offline-features")
    assert scores is not None
    assert [score.independent_reward for score in scores] == [0.25, 0.25, 1, 0.25, 0.25, 1]


@pytest.mark.parametrize(
    "reward", [True, bool_(1.0), np.True_, "1", float("nan"), Scalar(float("inf")), 10**400, [1], object()]
)
async def test_a_reward_that_is_no_finite_number_is_refused(reward: Any):
    with pytest.raises(harness.UsageError, match="trajectory 1 has a reward that is no number"):
        await harness.ruler([CHATS[0], {"messages": CHATS[1], "reward": reward}], "offline-features")


ASKED = {"role": "user", "content": "Why?"}
SAID = {"role": "assistant", "content": "So."}
CANNOT_BE_COMPARED: list[tuple[list[Any], str]] = [
    ([[ASKED, SAID], []], "trajectory 1: `messages` must be a list of messages"),
    ([[ASKED, SAID], {"messages": []}], "trajectory 1: `messages` must be a list of messages"),
    ([[ASKED, SAID], [ASKED, {"role": "robot", "content": "x"}]], "trajectory 1: message 2 has the role 'robot'"),
    ([[ASKED, SAID], [ASKED, {"content": "x"}]], "trajectory 1: message 2 has the role None"),
    ([[ASKED], [ASKED, SAID]], "trajectory 0: no message is an assistant's"),
    ([[ASKED, SAID], [{"role": "user", "content": "How?"}, SAID]], "trajectory 1 is of another query .*: 'How\\?'"),
]


@pytest.mark.parametrize("function", [harness.ruler, harness.rank_messages])
@pytest.mark.parametrize(("chats", "why"), CANNOT_BE_COMPARED)
async def test_trajectories_that_cannot_be_compared_are_refused_by_number(
    at_endpoint: FakeEndpoint, function: Function, chats: list[Any], why: str
):
    with pytest.raises(harness.UsageError, match=why):
        await function(chats, judge_model="j")
    assert not at_endpoint.requests


async def test_ruler_takes_trajectories_without_a_users_message():
    chats: list[Any] = [[{"role": "system", "content": "Go."}, {**SAID, "content": text}] for text in ("So.", "Thus.")]
    assert await harness.ruler(chats, "offline-features")


@pytest.mark.parametrize(
    ("function", "argument"),
    [
        (harness.ruler, "base_url"),
        (harness.rank_messages, "base_url"),
        (harness.rank_messages, "judge_base_url"),
    ],
)
async def test_the_argument_that_an_unreachable_address_comes_from_is_named(function: Function, argument: str):
    with pytest.raises(harness.Refused, match=rf"cannot reach .* The address comes from {argument}=$"):
        await function(CHATS, judge_model="j", **{argument: "http://127.0.0.1:9/v1"})


@pytest.mark.parametrize("function", [harness.ruler, harness.rank_messages])
async def test_the_variable_that_an_unreachable_address_comes_from_is_named(
    function: Function, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    with pytest.raises(harness.Refused, match=r"The address comes from OPENAI_BASE_URL$"):
        await function(CHATS, judge_model="j")


async def test_a_listwise_judges_explanations_are_kept_in_the_places(at_endpoint: FakeEndpoint):
    at_endpoint.judge = list_judge(lambda text: {"good": 0.9, "bad": 0.1}[text])
    places = await harness.rank_messages(CHATS, judge_model="j", judge="ruler")
    assert [(place.rank, place.explanation) for place in places] == [(0, "said: good"), (1, "said: bad")]


@pytest.mark.parametrize(
    ("trouble", "why"),
    [
        (
            "it holds no JSON object with the scores.",
            "not judged: the judge's reply holds no JSON object with the ",
        ),
        ("not judged, as asked", "not judged: as asked; "),
        ("the deadline was over", "not judged: the deadline was over; "),
    ],
)
def test_the_reason_why_nothing_was_judged_reads_as_a_sentence(trouble: str, why: str):
    assert best_from(a_group([a_rollout(0), a_rollout(1)]), None, trouble).why.startswith(why)
