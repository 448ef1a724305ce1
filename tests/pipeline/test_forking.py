"""A fork takes a rollout up again at any of its model calls: what comes before is given again, and is not bought."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

import harness
from harness.pipeline.exporting.export import ExportOptions, export_runs
from tests.fake_endpoint import FakeEndpoint, Reaction, Say, Seen
from tests.pipeline.forked_agents import (
    KINDS,
    RAN,
    answers,
    endpoint,
    fork,
    keyed,
    paid_calls,
    plain,
    rollouts_of,
    run_once,
    stepping,
)

__all__ = ["endpoint", "keyed"]


APIS = ("chat", "responses")
KINDS_AND_APIS = [(kind, APIS[(at // 2 + turn) % 2]) for turn in range(2) for at, kind in enumerate(KINDS)]


@pytest.mark.few(7)  # every kind, on one API or the other
@pytest.mark.parametrize(("kind", "api"), KINDS_AND_APIS)
def test_every_kind_of_agent_is_forked_at_every_call(endpoint: FakeEndpoint, tmp_path: Path, kind: str, api: Any):
    build, script, calls = KINDS[kind]
    endpoint.agent = script()
    run = run_once(build(), endpoint, tmp_path, api=api)
    endpoint.requests.clear()
    made = fork(run, build(), endpoint, at=",".join(map(str, range(calls))))
    parent, *branches = rollouts_of(made)
    assert paid_calls(made) == [calls - at for at in range(calls)]
    assert len(endpoint.requests) == sum(paid_calls(made)), "no call of a prefix was bought"
    path = [(step.kind, step.tool_output) for step in parent.trajectory.path]
    for at, branch in enumerate(branches):
        assert branch.status == "ok", branch.failure
        assert branch.branch
        assert (branch.branch.run, branch.branch.rollout, branch.branch.call) == (run.id, 0, at)
        assert [(step.kind, step.tool_output) for step in branch.trajectory.path] == path
        assert len(branch.calls) == calls
        assert branch.trajectory.answer != parent.trajectory.answer
    assert all(each.divergence is None for each in harness.replay_sync(made, agent=build()))
    RAN.clear()
    fork(run, build(), endpoint, at=str(calls - 1))
    assert not RAN, "at its last call every tool has given what it gave"


def test_a_fork_at_call_0_is_a_fresh_rollout_and_at_the_last_call_changes_the_answer_alone(
    endpoint: FakeEndpoint, tmp_path: Path
):
    run = run_once(plain(), endpoint, tmp_path)
    parent, fresh, last = rollouts_of(fork(run, plain(), endpoint, at="0,3"))
    assert parent.requested.temperature == 0
    assert fresh.requested.temperature == last.requested.temperature == 0.8
    assert {call.temperature for call in fresh.calls} == {0.8}
    assert [call.temperature for call in last.calls] == [0, 0, 0, 0.8]
    assert [call.usage is None for call in last.calls] == [True, True, True, False]
    assert fresh.branch
    assert last.branch
    assert fresh.branch.prefix != last.branch.prefix
    assert [step.call_id for step in last.trajectory.path] == [step.call_id for step in parent.trajectory.path]
    assert not {step.call_id for step in fresh.trajectory.path} & {step.call_id for step in parent.trajectory.path}


def test_branches_are_ranked_among_their_siblings_and_no_verdict_is_bought_twice(
    endpoint: FakeEndpoint, tmp_path: Path
):
    judged = {"n": 3, "topology": "round_robin", "judge_model": "judge"}
    run = run_once(plain(), endpoint, tmp_path, **judged)
    before = len(endpoint.of_judge)
    made = fork(run, plain(), endpoint, at="3", rollouts=(1,))
    (group,) = made.ranking().groups
    assert sorted(place.index for place in group.rollouts if place.rank is not None) == [0, 1, 2, 3]
    assert len(endpoint.of_judge) - before == 3 * 2, "the new one has met the three others in both orders"
    credited = made.credit()["rollouts"]
    assert [len(rollout["steps"]) for rollout in credited] == [4, 4, 4, 4]
    assert credited[3]["steps"][3]["shared"] == 3


def test_what_the_anchor_sampled_is_not_trained_as_a_sample(endpoint: FakeEndpoint, tmp_path: Path):
    judged = {"n": 2, "topology": "round_robin", "judge_model": "judge"}
    made = fork(run_once(plain(), endpoint, tmp_path, **judged), plain(), endpoint, at="2", rollouts=(0, 1))
    rules = harness.ExportRules(format="groups")
    exported = harness.export_run(made, tmp_path / "groups", rules)
    assert ("rollout", "its first calls are the anchor's, sampled at temperature 0", 1) in exported.losses.rows()


@pytest.mark.nightly
def test_at_equal_calls_forking_all_gives_many_more_judged_trajectories(endpoint: FakeEndpoint, tmp_path: Path):
    said = list[int]()

    def five(seen: Seen) -> Reaction:
        done = len(seen.tool_outputs)
        return Say(answers(said)) if done == 4 else Say(calls=(("note", {"text": f"step {done + 1}"}),))

    endpoint.agent = five
    judged = {"n": 2, "topology": "round_robin", "judge_model": "judge"}
    run = run_once(plain(), endpoint, tmp_path, **judged)
    made = fork(run, plain(), endpoint, at="all", rollouts=(1,))
    (group,) = made.ranking().groups
    ranked = sum(place.rank is not None for place in group.rollouts)
    independent = len(endpoint.of_agent) / 5
    assert (ranked, independent) == (6, 4.0)
    assert ranked / independent >= 1.4


@pytest.fixture(scope="module")
def forked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[harness.Run]:
    """Three judged rollouts and a branch of the second one."""
    folder = tmp_path_factory.mktemp("forked")
    with pytest.MonkeyPatch.context() as patch, FakeEndpoint(stepping()).serving() as endpoint:
        patch.setenv("OPENAI_API_KEY", "sk-" + "a" * 40)
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        judged = {"n": 3, "topology": "round_robin", "judge_model": "judge"}
        run = run_once(plain(), endpoint, folder / "runs", **judged)
        yield fork(run, plain(), endpoint, at="3", rollouts=(1,))


@pytest.mark.parametrize("form", ["groups", "atif", "csv"])
@pytest.mark.parametrize("order", [1, -1])
def test_exported_with_its_fork_a_run_is_left_out_for_the_fork_holds_its_rollouts(
    forked: harness.Run, tmp_path: Path, form: Any, order: int
):
    (parent,) = {rollout.branch.run for rollout in rollouts_of(forked) if rollout.branch}
    options = ExportOptions(rules=harness.ExportRules(format=form))
    alone = export_runs([forked.path], tmp_path / "alone", options)
    both = export_runs([forked.path.parent / parent, forked.path][::order], tmp_path / "both", options)
    assert both.lines == alone.lines > 0
    held = ("rollout", f"{forked.id}, which is exported too, holds a copy of it", 3)
    assert held in both.losses.rows()
    assert held not in alone.losses.rows()


def compared(made: harness.Run, to: Path) -> bool:
    """Compare a fork with the run that it is one of; return whether that was refused, for both hold one's rollouts."""
    (parent,) = {rollout.branch.run for rollout in rollouts_of(made) if rollout.branch}
    with pytest.raises(harness.UsageError, match=f"since {made.id} is a fork"):
        harness.compare_sync(made.path.parent / parent, made.path, runs_dir=to, trust_archive=True)
    return True


def beside_another(made: harness.Run, to: Path) -> int:
    """Compare a fork with a run that has nothing of it; return how many pairs were judged, three the branch's."""
    url = json.loads((made.path / "run.json").read_text())["endpoint"]["base_url"]
    values: Any = {"base_url": url, "model": "m", "topology": "none", "n": 4, "runs_dir": to, "report": False}
    other = harness.run_sync(plain(), ["Go on?"], **values)
    compared = harness.compare_sync(
        made.path, other.path, runs_dir=to, judge_model="judge", judge_base_url=url, pairs=9
    )
    return compared.results[0].pairs


COMMANDS: dict[str, tuple[Callable[[harness.Run, Path], Any], Any]] = {
    "replay": (lambda made, _: [each.divergence for each in harness.replay_sync(made, agent=plain())], [None] * 4),
    "rescore": (lambda made, _: ranked(harness.rescore_sync(made, free=True, report=False)), 4),
    "quote": (lambda made, _: harness.quote_sync(made).bought, (0, 0)),
    "validate": (lambda made, _: harness.validate_sync(made).findings, ()),
    "export": (lambda made, to: harness.export_run(made, to, harness.ExportRules(format="csv")).lines, 4),
    "merge": (lambda made, to: ranked(harness.merge([made], output=to / "merged")), 4),
    "pairs of forks": (lambda made, to: pairs_of(made, "forks", to) <= pairs_of(made, "siblings", to), True),
    "credit": (lambda made, _: len(made.credit()["rollouts"]), 4),
    "frame": (lambda made, _: len(made.to_frame(credit=True)), 4),
    "show": (lambda made, _: sum("branch" in r for r in made.to_json()["groups"][0]["rollouts"]), 1),
    "why": (lambda made, _: {side["branch"]["call"] for side in sides_of(made) if "branch" in side}, {3}),
    "report": (lambda made, _: made.write_page().read_text("utf-8").count(">branch of 1<"), 1),
    "resume": (lambda made, _: len(harness.resume_sync(made, plain()).rollouts()), 4),
    "compare": (compared, True),
    "compare with another": (beside_another, 9),
    "fork again": (lambda made, to: ranked(fork_again(made, to)), 5),
}


def sides_of(run: harness.Run) -> list[dict[str, Any]]:
    why = run.why(0, 3).as_json()
    return [why["a"], why["b"]]


def ranked(run: harness.Run) -> int:
    (group,) = run.ranking().groups
    return sum(place.rank is not None for place in group.rollouts)


def pairs_of(made: harness.Run, choice: Literal["forks", "siblings"], to: Path) -> int:
    return harness.export_run(made, to / choice, harness.ExportRules(format="dpo", pairs=choice, confidence=0.0)).lines


def fork_again(made: harness.Run, to: Path) -> harness.Run:
    rules = harness.ForkRules(at="3", rollouts=(3,))
    return harness.fork_sync(made, rules, plain(), runs_dir=to, report=False, trust_archive=True)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_forked_run_is_a_run_to_every_command(forked: harness.Run, tmp_path: Path, command: str):
    work, expected = COMMANDS[command]
    assert work(forked, tmp_path / "out") == expected
