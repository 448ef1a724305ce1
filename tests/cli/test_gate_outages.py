"""`harness gate --json` and `compare` where the judge fails: CI can tell an outage from a regression."""

import json
from collections.abc import Callable, Iterator
from itertools import count
from xml.etree import ElementTree as ET

import pytest

from tests.cli.desk import Desk, partial_judge
from tests.fake_endpoint import FakeEndpoint, Page, Reaction, Refuse, Say, Script, Seen

DOWN = Refuse(503, "down for maintenance")
WRONG = Refuse(400, "this request cannot be read")
NO_QUOTA = Refuse(429, "You exceeded your current quota", "insufficient_quota")
NUMBERS = count()
FAST = ("--give-up", "0.3", "--retries", "0", "--judge-concurrency", "2", "--json")


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with FakeEndpoint().serving() as endpoint:
        made = Desk(tmp_path_factory.mktemp("gate") / "room", endpoint)
        (made.work / "q.txt").write_text("\n".join(f"Why is number {n} not another one?" for n in range(20)))
        yield made


@pytest.fixture(scope="module")
def runs(desk: Desk) -> tuple[str, str]:
    return desk.run("weak", "-n", "2"), desk.run("strong", "-n", "2")


def after(calls: int, then: Reaction) -> Script:
    """Judge as usual so many times, and then react otherwise."""
    numbers = count()

    def judge(seen: Seen) -> Reaction:
        return partial_judge(seen) if next(numbers) < calls else then

    return judge


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("judge", "code", "stopped"),
    [
        pytest.param(lambda: after(30, DOWN), 6, "judge failed", id="down-midway"),
        pytest.param(lambda: after(30, WRONG), 6, "judge failed", id="refuses-requests-midway"),
        pytest.param(lambda: after(30, NO_QUOTA), 4, "quota", id="quota-midway"),
        pytest.param(lambda: after(0, DOWN), 3, "nothing judged", id="down"),
        pytest.param(lambda: after(0, NO_QUOTA), 4, "quota", id="quota-at-once"),
        pytest.param(lambda: after(0, Refuse(401, "wrong key")), 2, "refused", id="key"),
        pytest.param(lambda: after(0, Page()), 2, "refused", id="page"),
    ],
)
def test_a_gate_that_a_judge_leaves_without_a_finding_says_so_in_json_and_by_its_exit_code(
    desk: Desk, runs: tuple[str, str], judge: Callable[[], Script], code: int, stopped: str
):
    desk.endpoint.judge = judge()
    before = desk.folders()
    model = f"judge-{next(NUMBERS)}"  # nothing is bought of it yet
    done = desk("gate", *runs[::-1], *FAST, "--allow-unsure", "--junit", "gate.xml", "--judge-model", model)
    said = json.loads(done.out_text)
    assert (done.code, said["stopped"], said["finding"], said["passed"]) == (code, stopped, None, False), done.err_text
    suite = ET.parse(desk.work / "gate.xml").getroot()[0]
    assert (suite.get("errors"), suite.get("failures")) == ("1", "0"), "a regression would be a failure"
    if said["comparison"]:
        (made,) = desk.folders() - before
        assert f"harness resume runs/{made}" in said["sentence"], "what heals it"
        assert ("quota" in said["sentence"]) is (stopped == "quota")


def test_a_comparison_of_which_nothing_is_judged_ends_with_3(desk: Desk, runs: tuple[str, str]):
    for judge in (after(0, DOWN), after(0, Say("nonsense"))):
        desk.endpoint.judge = judge
        done = desk("compare", *runs, *FAST, "--judge-model", f"judge-{next(NUMBERS)}")
        assert done.code == 3, done.err_text
        assert "Nothing was judged" in json.loads(done.out_text)["sentence"]
        assert "harness resume runs/" in done.err_text
