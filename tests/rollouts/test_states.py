"""States: two rollouts share one where their models are shown the same but for what sampling alone decides."""

import copy
from typing import Any

import pytest

from harness.core.records import ModelCall
from harness.rollouts.states import StateBy, plain_arguments, state_names

Item = dict[str, Any]


def said(call: str, query: str, **more: Any) -> Item:
    return {"type": "function_call", "call_id": call, "name": "search", "arguments": query, **more}


def gave(call: str, output: str) -> Item:
    return {"type": "function_call_output", "call_id": call, "output": output}


def request(*items: Any, instructions: str = "Answer.") -> dict[str, Any]:
    return {"instructions": instructions, "input": list(items), "tools": [{"name": "search"}], "handoffs": []}


ASKED = {"role": "user", "content": "Why?"}


def last_state(*items: Any, by: StateBy = "requests") -> str:
    return state_names([request(ASKED), request(ASKED, *items)], [], by)[-1]


ONE = (said("a", '{"q": "sky"}', id="x", status="completed"), gave("a", "blue"))


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ((said("b", '{"q": "sky"}'), gave("b", "blue")), True),
        ((said("a", '{ "q":"sky"}'), gave("a", " blue\n")), True),
        ((said("a", '{"q": "sky"}', provider_data={"response_id": "r1"}), gave("a", "blue")), True),
        ((said("a", '{"q": "sea"}'), gave("a", "blue")), False),
        ((said("a", '{"q": "sky"}'), gave("a", "red")), False),
        ((said("a", "{"), gave("a", "blue")), False),
        ((), False),
    ],
)
def test_a_state_is_shared_but_for_ids_and_spaces(other: tuple[Item, ...], same: bool) -> None:
    assert (last_state(*ONE) == last_state(*other)) is same


def test_two_calls_that_swap_their_ids_are_not_the_same() -> None:
    both = said("a", "1"), said("b", "2")
    swapped = gave("b", "of 1"), gave("a", "of 2")
    assert last_state(*both, gave("a", "of 1"), gave("b", "of 2")) != last_state(*both, *swapped)


TALK: Item = {"role": "assistant", "content": "Hm"}
TWO = (said("a", "1"), gave("a", "x"), said("b", "2"), gave("b", "y"))


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ((said("c", "2"), gave("c", "y"), said("d", "1"), gave("d", "x")), True),
        (
            (said("c", "2"), said("d", "1"), {"role": "assistant", "content": "Hm"}, gave("d", "x"), gave("c", "y")),
            True,
        ),
        ((*TWO, said("c", "1"), gave("c", "x")), False),
        (TWO[:2], False),
    ],
)
def test_by_tools_the_results_count_and_not_their_order(other: tuple[Item, ...], same: bool) -> None:
    assert (last_state(*TWO, by="tools") == last_state(*other, by="tools")) is same


def test_the_result_of_a_hosted_tool_counts() -> None:
    search: Item = {"type": "web_search_call", "id": "w1", "action": {"query": "sky"}}
    other = search | {"action": {"query": "sea"}}
    assert last_state(search, by="tools") == last_state(search | {"id": "w2"}, by="tools")
    assert last_state(search, by="tools") != last_state(other, by="tools")


def test_names_do_not_depend_on_whether_requests_hold_the_same_objects() -> None:
    calls = [request(ASKED), request(ASKED, *TWO[:2]), request(ASKED, *TWO), request("a summary of it")]
    assert state_names(calls, []) == state_names(copy.deepcopy(calls), [])
    assert len(set(state_names(calls, []))) == 4


def test_instructions_tools_and_agents_around_it_are_part_of_a_state() -> None:
    plain, other = request(ASKED), request(ASKED, instructions="Answer briefly.")
    assert state_names([plain], []) != state_names([other], [])
    nested = [ModelCall(raw=0), ModelCall(raw=1, within="a", within_raw=0)]
    assert state_names([plain, plain], nested)[1] != state_names([other, plain], nested)[1]
    assert (
        state_names([plain, plain], nested)[1] == state_names([plain, plain], nested)[1] != state_names([plain], [])[0]
    )


def test_a_request_that_no_record_should_hold_has_a_name() -> None:
    odd: list[Any] = [None, 3, [], {"type": None}, {"type": "x_call_output", "call_id": ["a"]}, float("nan")]
    assert state_names([request(*odd)], [ModelCall(raw=0, within_raw=9)], "tools")
    assert plain_arguments(" no json ") == "no json"
