"""Which price holds: the user's own, that of the address, that of the name, none."""

import pytest

from harness.core.cost import UNKNOWN, Cost
from harness.core.records import Bill, Usage
from harness.core.settings_sources import load
from harness.endpoints.costs import UNKNOWN_ADDRESS, PriceList, price_list

GATEWAY = "http://gateway.test/v1"
USAGE = Bill(Usage(requests=1, input=1_000_000, cached=500_000, output=1_000_000))
UNTOLD = Bill(Usage(requests=1))
LISTED = PriceList()
AT_OPENAI = LISTED.cost(USAGE, ("gpt-4o-mini",), None)


def test_a_price_of_the_users_wins_everywhere():
    own = price_list(load({"prices": {"gpt-4o-mini": "1/2/0.5"}}))
    for place in (None, GATEWAY, UNKNOWN_ADDRESS):
        assert own.cost(USAGE, ("gpt-4o-mini",), place).usd == pytest.approx(0.5 + 0.25 + 2)
    assert own.cost(USAGE, ("gpt-4o-mini-2024-07-18", "gpt-4o-mini"), None).usd == pytest.approx(2.75)
    assert own.cost(USAGE, ("another",), GATEWAY) == UNKNOWN
    assert own.cost(UNTOLD, ("gpt-4o-mini",), GATEWAY) == UNKNOWN


def test_a_model_that_costs_nothing_costs_nothing_whatever_the_server_tells():
    assert price_list(load({"prices": {"m": "0/0"}})).cost(UNTOLD, ("m",), GATEWAY) == Cost()


@pytest.mark.parametrize("name", ["gpt-4o-mini", "openai/gpt-4o-mini", "gpt-4o-mini-2024-07-18"])
def test_by_name_a_known_model_behind_a_gateway_takes_its_list_price(name: str):
    by_name = price_list(load({"price_by_name": True}))
    assert AT_OPENAI.usd
    assert by_name.cost(USAGE, (name,), GATEWAY) == by_name.cost(USAGE, (name,), UNKNOWN_ADDRESS) == AT_OPENAI
    like = by_name.list_price((name,), GATEWAY)
    assert like
    assert (like.provider_name, like.model) == ("OpenAI", "gpt-4o-mini")


def test_without_being_asked_no_name_is_priced_at_an_unknown_address():
    assert LISTED.cost(USAGE, ("gpt-4o-mini",), GATEWAY) == UNKNOWN
    assert LISTED.cost(USAGE, ("gpt-4o-mini",), UNKNOWN_ADDRESS) == UNKNOWN


def test_by_name_changes_nothing_at_a_listed_address_and_for_an_unknown_name():
    by_name = PriceList(by_name=True)
    assert by_name.cost(USAGE, ("gpt-4o-mini",), None) == AT_OPENAI
    assert by_name.list_price(("gpt-4o-mini",), None) is None
    assert by_name.cost(USAGE, ("a-model-that-no-one-sells",), GATEWAY) == UNKNOWN
    assert by_name.cost(USAGE, (None,), GATEWAY) == UNKNOWN
