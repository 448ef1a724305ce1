"""`harness why`: every number of it stands in the archive, for every topology and for a list; who never met can."""

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.archive.reader import RunReader
from harness.core.records import Step
from harness.ranking.topologies import TOPOLOGIES
from harness.report.summary.why import decided, explain_pair, find_pair, first_sentence
from harness.report.summary.why_records import Meeting, aligned_steps, first_parting
from tests.fuzz.attacks import Room
from tests.fuzz.attempts import Outcome, attempt


class Runs:
    """A folder with runs, and the commands that read them, in this process."""

    def __init__(self, top: Path) -> None:
        self.room = Room.make(top)

    def __call__(self, *argv: str) -> Outcome:
        return attempt(argv, self.room.work, self.room.environ({"COLUMNS": "80"}))

    def run(self, *argv: str) -> None:
        """Make a run offline, without its page."""
        assert self("run", *argv, "--offline", "-q", "--no-report").code == 0

    def json(self, *argv: str) -> Any:
        outcome = self(*argv, "--json")
        assert outcome.code == 0, outcome.err_text
        return json.loads(outcome.out_text)

    def newest(self) -> Path:
        return max(self.room.runs.iterdir())


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """A run of eight rollouts, judged as a round robin, then by each topology."""
    made = Runs(tmp_path_factory.mktemp("why") / "room")
    made.run("Tell me about Lisp.", "-n", "8", "--topology", "round_robin")
    return made


@pytest.fixture(scope="module")
def by_topology(runs: Runs) -> dict[str, str]:
    """The ids of the run's rankings, by topology."""
    for name in sorted({*TOPOLOGIES} - {"none", "round_robin"}):
        budget = ("--budget", "9") if name == "cyclic" else ()
        assert runs("rescore", "--topology", name, *budget, "-q", "--no-report").code == 0
    return {line["topology"]: line["ranking"] for line in runs.json("show", "--rankings")}


def lines(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of a folder of the archive as they are written."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            record = json.loads(line)
            yield record.get("record", record)


def verdicts_of(run: Path) -> dict[str, dict[str, Any]]:
    return {record["key"]: record for record in lines(run / "verdicts") if "key" in record}


def ranked_group(run: Path, ranking: str) -> dict[str, Any]:
    path = run / "rankings" / f"{ranking}.jsonl"
    records = (json.loads(line) for line in path.read_text("utf-8").splitlines())
    return next(record for record in records if "matches" in record)


def read_by_hand(run: Path, ranking: str, a: int, b: int) -> dict[str, Any]:
    """Return what `why` must say of a pair, out of the lines of the archive alone."""
    group, verdicts = ranked_group(run, ranking), verdicts_of(run)
    places = {r["index"]: r for r in group["rollouts"]}
    scores, marks, winners = [], {}, []
    for match in group["matches"]:
        if {match["a"], match["b"]} != {a, b}:
            continue
        scores.append([])
        for first, key in zip(match["shown_first"], match["verdicts"], strict=True):
            verdict = verdicts[key]
            ours, theirs = (verdict["a"], verdict["b"]) if first == a else (verdict["b"], verdict["a"])
            scores[-1].append([ours["combined"], theirs["combined"]])
            winners.append((ours["combined"] > theirs["combined"]) - (ours["combined"] < theirs["combined"]))
            if not match.get("repeated"):
                for name, mark in ours["dimensions"].items():
                    marks.setdefault(name, []).append(mark - theirs["dimensions"][name])
    return {
        "places": [(places[i].get("rank"), places[i].get("score")) for i in (a, b)],
        "scores": scores,
        "shown_first": [m["shown_first"] for m in group["matches"] if {m["a"], m["b"]} == {a, b}],
        "dimensions": {name: float(np.mean(differences)) for name, differences in marks.items()},
        "flipped": {1, -1} <= set(winners),
    }


def agrees(why: dict[str, Any], by_hand: dict[str, Any]) -> None:
    assert [(why[side]["rank"], why[side]["score"]) for side in "ab"] == by_hand["places"]
    for side in "ab":  # ranks that are shared are the average of places
        rank, place = why[side]["rank"], why[side]["place"]
        assert place is None if rank is None else rank + 1 - place >= 0
        assert why[side]["shared"] == (rank is not None and rank + 1 != place)
    assert [match["scores"] for match in why["matches"]] == by_hand["scores"]
    assert [match["shown_first"] for match in why["matches"]] == by_hand["shown_first"]
    assert why["dimensions"] == pytest.approx(by_hand["dimensions"])
    if len(why["matches"]) == 1:
        assert why["matches"][0]["flipped"] == by_hand["flipped"]


def explained(run: Path, ranking: str, a: int, b: int) -> dict[str, Any]:
    with RunReader(run) as reader:
        chosen = reader.ranking(ranking)
        (query,) = reader.queries()
        return json.loads(json.dumps(explain_pair(reader, chosen, find_pair(reader, chosen, query, a, b)).as_json()))


@pytest.mark.nightly
def test_all_28_pairs_of_a_round_robin_agree_with_the_verdict_records(runs: Runs, by_topology: dict[str, str]) -> None:
    run, ranking = runs.newest(), by_topology["round_robin"]
    for a, b in permutations(range(8), 2):
        why = explained(run, ranking, a, b)
        agrees(why, read_by_hand(run, ranking, a, b))
        assert len(why["matches"]) == 1
        assert (why["meet"], why["common"]) == (None, [])


@pytest.mark.nightly
def test_difference_and_probability_are_those_of_the_fit_that_ranks(runs: Runs, by_topology: dict[str, str]) -> None:
    run, ranking = runs.newest(), by_topology["round_robin"]
    scores = {r["index"]: r["score"] for r in ranked_group(run, ranking)["rollouts"]}
    for a, b in combinations(range(8), 2):
        there, back = explained(run, ranking, a, b), explained(run, ranking, b, a)
        assert there["difference"] == pytest.approx(scores[a] - scores[b], abs=2e-6)
        assert there["difference"] == -back["difference"]
        assert there["p_above"] + back["p_above"] == pytest.approx(1, abs=2e-6)
        assert there["sd"] == back["sd"] > 0


@pytest.mark.nightly
def test_every_topology_agrees_and_names_whom_both_met(runs: Runs, by_topology: dict[str, str]) -> None:
    run = runs.newest()
    for ranking in by_topology.values():
        matches = ranked_group(run, ranking)["matches"]
        met = {frozenset((m["a"], m["b"])) for m in matches}
        for a, b in combinations(range(8), 2):
            why = explained(run, ranking, a, b)
            agrees(why, read_by_hand(run, ranking, a, b))
            both = {c for c in range(8) if {frozenset((a, c)), frozenset((b, c))} <= met}
            assert {c["index"] for c in why["common"]} == (both if {a, b} not in met else set())


@pytest.mark.parametrize("archive", ["offline-ruler", "online-ruler"])
def test_of_a_list_both_explanations_stand_in_the_place_of_dimensions(tmp_path: Path, archive: str) -> None:
    ruled = Runs(tmp_path / "room")
    ranked = ranked_group(run := ruled.room.add_run(archive), next(run.glob("rankings/*.jsonl")).stem)
    explanations = {r["index"]: r["explanation"] for r in ranked["rollouts"] if r.get("explanation")}
    why = ruled.json("why")
    assert [why[side]["explanation"] for side in "ab"] == [explanations[why[side]["index"]] for side in "ab"]
    assert why["difference"] == pytest.approx(why["a"]["score"] - why["b"]["score"], abs=1e-6)
    assert (why["dimensions"], why["matches"], why["p_above"], why["meet"]) == ({}, [], None, None)
    shown = " ".join(ruled("why").out_text.split())
    assert all(" ".join(explanations[why[side]["index"]].split()) in shown for side in "ab")


@pytest.mark.parametrize("archive", ["offline-arena", "offline-cyclic", "online-jury", "online-verified", "imported"])
def test_old_archives_explain_their_first_two_places(tmp_path: Path, archive: str) -> None:
    old = Runs(tmp_path / "room")
    old.room.add_run(archive)
    first = old.json("show")["groups"][0]
    named = () if len(old.json("show")["groups"]) == 1 else ("--query", first["id"])
    why = old.json("why", "last", *named)
    ranks = {r["index"]: r["rank"] for r in first["rollouts"] if r["rank"] is not None}
    assert [why[side]["index"] for side in "ab"] == sorted(ranks, key=lambda i: (ranks[i], i))[:2]
    assert old("why", *named).code == 0


@pytest.mark.nightly
def test_the_command_named_makes_two_meet_with_exactly_that_number_of_calls(tmp_path: Path) -> None:
    met = Runs(tmp_path / "room")
    met.run("Tell me about Lisp.", "-n", "6")
    apart = [pair for pair in combinations(range(6), 2) if not met.json("why", *map(str, pair))["matches"]]
    assert apart
    for a, b in apart[:2]:
        why = met.json("why", str(a), str(b), "--ranking", met.json("show", "--rankings")[0]["ranking"])
        before = len(verdicts_of(met.newest()))
        done = met(*shlex.split(why["meet"]["command"])[1:], "-q")
        assert done.code == 0, done.err_text
        assert len(verdicts_of(met.newest())) - before == why["meet"]["calls"]
        again = met.json("why", str(a), str(b))
        assert len(again["matches"]) == 1
        assert again["ranking"] != why["ranking"]


@pytest.mark.nightly
def test_the_command_judges_as_the_ranking_did_where_its_settings_are_not_the_run_s(tmp_path: Path) -> None:
    changed = Runs(tmp_path / "room")
    changed.run("Tell me about Lisp.", "-n", "5", "--topology", "anchor", "--order", "single")
    for change, calls in (
        (("--judge-repeats", "2"), 2),
        (("--order", "both"), 1),  # the other order of the pair is bought already
        (("--rubric", "research"), 1),
        (("--judge-model", "offline-features", "--judge-label", "mine"), 1),
        ((), 0),
    ):
        assert changed("rescore", *change, "-q").code == 0
        why = changed.json("why", "1", "2")
        before = len(verdicts_of(changed.newest()))
        assert changed(*shlex.split(why["meet"]["command"])[1:], "-q").code == 0
        assert (why["meet"]["calls"], len(verdicts_of(changed.newest())) - before) == (calls, calls)
        assert len(changed.json("why", "1", "2")["matches"]) == 1


def test_of_pooled_the_difference_is_that_of_its_scores_and_its_own_fit_says_how_sure(tmp_path: Path) -> None:
    pooled = Runs(tmp_path / "room")
    (pooled.room.work / "q.jsonl").write_text('{"id": "one", "query": "Lisp?"}\n{"id": "two", "query": "Rome?"}\n')
    pooled.run("--queries", "q.jsonl", "-n", "4", "--topology", "round_robin", "--estimator", "pooled")
    for query in ("one", "two"):
        why = pooled.json("why", "0", "2", "--query", query)
        assert why["difference"] == pytest.approx(why["a"]["score"] - why["b"]["score"], abs=2e-6)
        assert why["sd"] > 0
        assert (why["p_above"] > 0.5) == (why["difference"] > 0)
        assert why["by_differences"] is not None
    with RunReader(pooled.newest()) as reader:
        ranking, query = reader.ranking(), next(query for query in reader.queries() if query.id == "one")
        why = explain_pair(reader, ranking, find_pair(reader, ranking, query, 0, 2))
    level = replace(why, difference=0.8, by_differences=-0.25)
    assert "level of the marks" not in replace(level, by_differences=0.25).lead_sentence
    assert level.lead_sentence.startswith("rollout 0 (anchor) leads by 0.80")
    alone = "; the level of the marks decides: by their differences alone, rollout 2 leads by 0.25"
    assert level.lead_sentence.endswith(alone)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("a_first", "b_first", "says"),
    [
        ((7, 5), (6, 5), "rollout 0 (anchor) ahead by 1.50, the swap did not change the winner"),
        ((7, 5), (5, 6), "rollout 0 (anchor) ahead by 0.50, the swap changed the winner"),
        ((7, 5), (5, 7), "a tie, the swap changed the winner"),
        ((7, 5), (6, 6), "rollout 0 (anchor) ahead by 1.00, one order calls it a tie"),
        ((6, 6), (5, 5), "a tie, both orders call it a tie"),
    ],
)
@pytest.mark.parametrize("matches", [1, 2])
def test_the_swap_is_said_to_keep_the_winner_only_where_both_orders_name_it(
    matches: int, a_first: tuple[int, int], b_first: tuple[int, int], says: str, runs: Runs
):
    """The two orders are verdicts of one match, or matches of their own."""
    with RunReader(runs.newest()) as reader:
        ranking, query = reader.ranking(), next(iter(reader.queries()))
        why = explain_pair(reader, ranking, find_pair(reader, ranking, query, 0, 1))
    first, second = (1 if a > b else -1 if b > a else 0 for a, b in (a_first, b_first))
    one = Meeting(
        number=1,
        round=0,
        winner=None,
        shown_first=(0, 1),
        scores=(a_first, b_first),
        mean=((a_first[0] + b_first[0]) / 2, (a_first[1] + b_first[1]) / 2),
        flipped=first * second < 0,
        inconsistent=(first == 0) != (second == 0),
        repeated=False,
    )
    own = {"flipped": False, "inconsistent": False}
    two = (
        replace(one, **own, shown_first=(0,), scores=(a_first,), mean=a_first),
        replace(one, **own, shown_first=(1,), scores=(b_first,), mean=b_first),
    )
    assert f": {says}" in replace(why, matches=(one,) if matches == 1 else two).matches_sentence


def test_what_two_of_many_queries_take_to_meet_is_only_their_own_calls(tmp_path: Path) -> None:
    many = Runs(tmp_path / "room")
    (many.room.work / "q.jsonl").write_text('{"id": "one/1", "query": "Lisp?"}\n{"id": "two", "query": "Rome?"}\n')
    many.run("--queries", "q.jsonl", "-n", "4", "--topology", "anchor", "--order", "single")
    assert "there are: one/1, two" in many("why").err_text
    assert many("why").code == 2
    why = many.json("why", "1", "2", "--query", "one/1")
    assert why["meet"]["calls"] == 1
    before = len(verdicts_of(many.newest()))
    assert many(*shlex.split(why["meet"]["command"])[1:], "-q").code == 0
    assert len(verdicts_of(many.newest())) - before == 1
    assert len(many.json("why", "1", "2", "--query", "one/1")["matches"]) == 1


def test_numbers_alone_are_rollouts_of_the_last_run(runs: Runs) -> None:
    assert [runs.json("why", "3", "5")[side]["index"] for side in "ab"] == [3, 5]
    best = runs.json("why")
    assert runs.json("why", str(best["a"]["index"]))["b"]["index"] == best["b"]["index"]
    assert runs.json("why", "last", str(best["b"]["index"]))["b"]["index"] == best["a"]["index"]


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (("5", "5"), 2, "there are: 0, 1, 2, 3, 4, 6, 7"),
        (("0", "9"), 2, "there are: 0, 1, 2, 3, 4, 5, 6, 7"),
        (("last", "zero"), 2, "'zero' is no rollout"),
        (("last", "--query", "nowhere"), 2, "no query 'nowhere'"),
        (("last", "--ranking", "nothing"), 2, "there are: "),
    ],
)
def test_what_is_not_there_is_named_with_what_there_is(runs: Runs, argv: tuple[str, ...], code: int, said: str) -> None:
    outcome = runs("why", *argv)
    assert (outcome.code, outcome.out_text) == (code, "")
    assert said in outcome.err_text


def test_a_run_that_is_not_judged_ends_with_3_and_the_command_that_judges_it(tmp_path: Path) -> None:
    plain = Runs(tmp_path / "room")
    plain.run("Why?", "-n", "2", "--topology", "none")
    outcome = plain("why")
    assert (outcome.code, outcome.out_text) == (3, "")
    assert "rescore" in outcome.err_text
    elsewhere = plain.room.work / "s1"
    elsewhere.mkdir()
    moved = plain.newest().rename(elsewhere / plain.newest().name)
    assert f"rescore s1/{moved.name} " in plain("why", "--runs-dir", "s1").err_text, "the id alone is not to be found"
    moved.rename(plain.room.runs / moved.name)
    for path in (plain.newest() / "rankings").iterdir():
        path.unlink()
    outcome = plain("why")
    assert (outcome.code, outcome.out_text) == (3, "")
    assert "harness resume" in outcome.err_text, "it names its judge"


def test_a_damaged_run_ends_with_5(tmp_path: Path) -> None:
    damaged = Runs(tmp_path / "room")
    run = damaged.room.add_run("offline-arena")
    path = next((run / "rollouts").iterdir())
    path.write_text(path.read_text("utf-8").replace('"index":', '"indeks":', 1))
    assert damaged("why").code == 5


def call(name: str, given: str) -> Step:
    return Step(kind="tool", tool_name=name, tool_input=given)


def test_paths_part_at_the_first_tool_call_that_differs_by_name_or_input() -> None:
    think, same = Step(kind="message", reasoning="Hm."), call("search", '{"q": "x", "n": 1}')
    path = (same, call("open", "{}"))
    assert first_parting(path, (think, call("search", '{"n":1,"q":"x"}'), call("open", "{}"))) is None
    parting = first_parting(path, (think, same, call("open", '{"page": 2}')))
    assert parting
    assert (parting.call, parting.a and parting.a.step, parting.b and parting.b.step) == (2, 2, 3)
    shorter = first_parting(path, (same,))
    assert shorter
    assert (shorter.call, shorter.b) == (2, None)


def test_steps_align_by_a_longest_common_subsequence_of_tool_calls() -> None:
    think = Step(kind="message", reasoning="Hm.")
    x, y, z = call("x", ""), call("y", ""), call("z", "")
    places = aligned_steps((x, think, y, z), (y, think, think, z, x))
    assert [pair for pair in places if None not in pair] == [(2, 0), (3, 3)]
    assert [i for i, _ in places if i is not None] == [0, 1, 2, 3]
    assert [j for _, j in places if j is not None] == [0, 1, 2, 3, 4]
    assert aligned_steps((x, y), (x, y)) == [(0, 0), (1, 1)]
    assert aligned_steps((), (x,)) == [(None, 0)]


def test_the_dimensions_that_decided_outweigh_all_that_speak_against_the_winner() -> None:
    assert decided({"a": 1.0, "b": 3.0, "c": -2.0}, 1.0) == {"b"}
    assert decided({"a": 1.0, "b": 2.0, "c": -2.0}, 1.0) == {"a", "b"}
    assert decided({"a": 2.0, "b": -2.0, "c": -1.0}, -1.0) == {"b", "c"}
    assert decided({"a": 1.0, "b": 1.0, "c": 0.0}, 1.0) == {"a", "b"}
    assert decided({"a": 1.0, "b": -1.0}, 0.0) == set()


def test_a_sentence_ends_where_a_sentence_ends() -> None:
    assert first_sentence("It is clear, e.g. in step 2.5 of it. And more.") == "It is clear, e.g. in step 2.5 of it."
    assert first_sentence("  No\n end ") == "No end"
    assert len(first_sentence("word " * 1000)) <= 300
