"""An endpoint that refuses the key, the model or the account midway: it is asked no more, and one line says why."""

import json

import pytest

from tests.cli.desk import Desk, by_model
from tests.fake_endpoint import Page, Reaction, Refuse, Script, Seen, fair_judge

CREDIT = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing."
NO_QUOTA = {
    "openai": Refuse(429, "You exceeded your current quota", "insufficient_quota"),
    "402": Refuse(402, "This request requires more credits"),
    "anthropic": Refuse(400, CREDIT, "invalid_request_error"),
    "azure": Refuse(403, "Out of call volume quota. Quota will be replenished in 11 days."),
    "reseller": Refuse(403, "user quota is not enough", "insufficient_user_quota"),
}
REFUSALS = {"401": Refuse(401, "wrong key"), "403": Refuse(403, "no access"), "404": Refuse(404, "no such model")}
RUN = (*"run --agent poet.py --model m -n 4 --queries q.txt --judge-model judge".split(), "--give-up", "300")
ONE = ("--concurrency", "1", "--judge-concurrency", "1", "--topology", "round_robin")


def after(calls: int, sound: Script, then: Reaction) -> Script:
    """React as usual so many times, and then otherwise."""

    def react(seen: Seen) -> Reaction:
        nonlocal calls
        calls -= 1
        return sound(seen) if calls >= 0 else then

    return react


@pytest.mark.few(2)
@pytest.mark.parametrize("who", ["agent", "judge"])
@pytest.mark.parametrize("how", [*NO_QUOTA, *REFUSALS])
def test_a_refusal_midway_ends_the_endpoint_at_once_and_one_line_says_who_when_what_and_the_remedy(
    desk: Desk, how: str, who: str
):
    refusal = NO_QUOTA.get(how) or REFUSALS[how]
    sound = 6 if who == "agent" else 3
    desk.endpoint.agent = after(sound, by_model, refusal) if who == "agent" else by_model
    desk.endpoint.judge = after(sound, fair_judge(), refusal) if who == "judge" else fair_judge()
    done = desk(*RUN, *ONE)
    asked = desk.endpoint.of_agent if who == "agent" else desk.endpoint.of_judge
    assert len(asked) == sound + 1, f"the refused call is the last one: {done.err_text}"
    assert done.code in ({4} if how in NO_QUOTA else {1, 3}), done.err_text
    lines = [line for line in done.err_text.splitlines() if line.startswith(("stopped: ", "error: "))]
    assert len(lines) == 1, done.err_text
    (run,) = desk.folders()
    for words in (desk.endpoint.host, f"the {who}'s endpoint", "since ", "missing", f"`harness resume runs/{run}`"):
        assert words in lines[0]
    assert ("quota" in lines[0]) is (how in NO_QUOTA)
    desk.endpoint.agent, desk.endpoint.judge = by_model, fair_judge()
    healed = desk("resume", "--json")
    assert healed.code == 0, healed.err_text
    assert {r["status"] for g in json.loads(healed.out)["groups"] for r in g["rollouts"]} == {"ok"}


@pytest.mark.parametrize("who", ["agent", "judge"])
def test_pages_from_mid_run_on_are_given_up_as_no_reply_is(desk: Desk, who: str):
    desk.endpoint.agent = after(6, by_model, Page()) if who == "agent" else by_model
    desk.endpoint.judge = after(3, fair_judge(), Page()) if who == "judge" else fair_judge()
    topology = () if who == "judge" else ("--topology", "none")  # a reply to either opens the way for both
    done = desk(*RUN, *topology, "--give-up", "0.5", "--retries", "1")
    pages = len(desk.endpoint.of_agent) - 6 if who == "agent" else len(desk.endpoint.of_judge) - 3
    assert pages <= 30, "5 in a row open the breaker; what is under way then ends"
    assert done.code in {1, 3}, done.err_text
    assert "gave no reply for 0.5 s (--give-up); the last error: no model's reply" in done.err_text
