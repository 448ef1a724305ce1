"""`--price`: what is a price and what is none, from the command line, a file and Python."""

from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import UsageError
from harness.core.prices import Price, prices_of
from harness.core.settings import as_written
from harness.core.settings_sources import changed, load, merge_sources

GOOD = [
    ("m=0.5/1.5", {"m": Price(0.5, 1.5, 0.5)}),
    (" m = 1 / 2 / 0.1 ", {"m": Price(1, 2, 0.1)}),
    ("vendor/m:7b=0/0", {"vendor/m:7b": Price(0, 0, 0)}),
    ("a=b=1/2", {"a=b": Price(1, 2, 1)}),
]
BAD = [
    "",
    "m",
    "m=",
    "m=1",
    "=1/2",
    "m=1/2/3/4",
    "m=-1/2",
    "m=nan/1",
    "m=inf/1",
    "m=1e3/1",
    "m=1_0/2",
    "m=١/2",
    "m=$1/2",
    "m=1000001/1",
    "m\u202e=1/2",
    "m\0=1/2",
    "\ud800=1/2",
    "m" * 201 + "=1/2",
    "m=" + "9" * 5000 + "/1",
]


@pytest.mark.parametrize(("word", "prices"), GOOD)
def test_a_price_is_read_from_a_word_a_mapping_and_numbers(word: str, prices: dict[str, Price]):
    settings = load({"prices": [word]})
    assert prices_of(settings.prices) == prices
    model, _, numbers = word.rpartition("=")
    assert load({"prices": {model: numbers}}) == settings
    assert (
        load({"prices": {model: [float(n) for n in numbers.split("/")]}}).prices
        == load({"prices": {model: "/".join(str(float(n)) for n in numbers.split("/"))}}).prices
    )
    assert load(as_written(settings)) == settings  # as run.json has it


@pytest.mark.parametrize("bad", BAD)
def test_what_is_no_price_is_refused_in_a_line(bad: str):
    model, equals, numbers = bad.rpartition("=")
    for value in ([bad], {model: numbers} if equals else bad):
        with pytest.raises(UsageError, match="--price") as refusal:
            load({"prices": value})
        assert "\n" not in str(refusal.value)
        assert len(str(refusal.value)) < 600


@pytest.mark.parametrize("bad", [5, [5], [["m", 1]], {"m": None}, {"m": {}}, {"m": 1}, {"m": [1]}, {5: "x"}, "m"])
def test_prices_of_another_type_are_refused(bad: Any):
    with pytest.raises(UsageError, match="--price"):
        load({"prices": bad})


def test_a_model_with_two_prices_is_refused():
    with pytest.raises(UsageError, match="'m' has two prices"):
        load({"prices": ["m=1/2", "m=1/3"]})


def test_a_config_file_holds_a_mapping(tmp_path: Path):
    config = tmp_path / "c.yaml"
    config.write_text("prices:\n  my-model: 0.5/1.5\n  other: 1/2/0.25\n", "utf-8")
    settings = load(merge_sources({}, {}, config))
    assert prices_of(settings.prices) == {"my-model": Price(0.5, 1.5, 0.5), "other": Price(1, 2, 0.25)}


def test_prices_given_now_are_added_to_those_of_the_run():
    before = as_written(load({"prices": {"a": "1/2", "b": "3/4"}}))
    after = load(changed(before, {"prices": {"b": "5/6", "c": "7/8"}}))
    assert after.prices == ("a=1/2", "b=5/6", "c=7/8")
    assert load(changed(before, {})).prices == ("a=1/2", "b=3/4")


def test_cached_tokens_are_part_of_those_read():
    assert Price(1, 2, 0.1).usd(1_000_000, 0, 400_000) == pytest.approx(0.6 + 0.04)
    assert Price(1, 2, 0.1).usd(100, 10, 5_000) == pytest.approx((100 * 0.1 + 10 * 2) / 1e6)
