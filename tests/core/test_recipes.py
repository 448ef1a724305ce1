"""`--vary`: what is a way to vary and what is none, from the command line and Python."""

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.shared import ReasoningEffort

from harness.core.errors import UsageError
from harness.core.recipes import EFFORTS, Vary, parse_variants, parse_vary, varied, vary_text, vary_word
from harness.core.settings import as_written
from harness.core.settings_sources import load

GOOD = [
    ("temperature", Vary(temperature=True)),
    ("effort=low,high", Vary(efforts=("low", "high"))),
    ("effort=low,xhigh,max", Vary(efforts=("low", "xhigh", "max"))),
    ("effort=maxxinstructions=4", Vary(efforts=("max",), paraphrases=4)),
    ("instructions=auto", Vary(paraphrases=4)),
    ("effort = low, high x temperature", Vary(temperature=True, efforts=("low", "high"))),
    ("instructions=prefixes.txt", Vary(file="prefixes.txt")),
    ("instructions=./4", Vary(file="./4")),
    (" auto ", Vary(auto=True)),
    ("models=a:2,b:1", Vary(models=(("a", 2), ("b", 1)))),
    ("models=a:4,b:2", Vary(models=(("a", 2), ("b", 1)))),
    ("models=llama3:8b,vendor/x:3", Vary(models=(("llama3:8b", 1), ("vendor/x", 3)))),
    ('instructions=["an xeffort=low", "b"]xeffort=low', Vary(efforts=("low",), variants=("an xeffort=low", "b"))),
]
BAD = [
    ("", "'' is no way to vary; expected temperature, effort="),
    ("efort=low", "'efort=low' is no way to vary; expected"),
    ("autoxeffort=low", "'auto' is no way to vary; expected"),
    ("effort", "effort has no value"),
    ("effort=loww", "effort=loww: no level of reasoning effort; the levels are none, minimal"),
    ("effort=low,", "effort=low,: a value is empty"),
    ("effort=low,low", "'low' stands there twice"),
    ("effort=lowxeffort=high", "effort is named twice: name all of its values at once"),
    ("effort=lowxtone=warm", "effort=lowxtone=warm: no level"),
    ("temperature=0.5", "temperature takes no value here; --temperature sets it"),
    ("models=a:0", "models=a:0: expected the name of a model, and a weight of at least 1"),
    ("models=a,a:2", "'a' is named twice; give it a weight"),
    ("models=a:300,b:1", "makes 301 recipes, weights included, and there may be 256"),
    ("instructions=0", "expected 1 to 32 paraphrases"),
    ("instructions=[]", "the list of instructions is empty"),
    ("instructions=[1]", "holds what is no text"),
    ("instructions=['a']", "is no list of texts in JSON"),
    ('instructions=["a"], "b"', "behind the list, x and another way may stand"),
    ('instructions=["a", " "]', "variant 2 of the instructions is empty"),
    ('instructions=["a", "a"]', "the variant 'a' stands there twice"),
]


@pytest.mark.parametrize(("text", "vary"), GOOD)
def test_ways_to_vary_are_read_alone_and_joined_by_x(text: str, vary: Vary):
    assert parse_vary(text) == vary


@pytest.mark.parametrize(("text", "message"), BAD)
def test_what_is_no_way_to_vary_is_refused_with_the_value_and_what_to_write(text: str, message: str):
    with pytest.raises(UsageError) as raised:
        load({"vary": text})
    assert "--vary" in str(raised.value)
    assert message in str(raised.value)


_TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1).filter(str.strip)


@given(
    st.builds(
        Vary,
        st.booleans(),
        st.lists(st.sampled_from(EFFORTS), unique=True, min_size=1, max_size=3).map(tuple),
        st.sampled_from([(), (("a", 1), ("b:c", 2))]),
        st.lists(_TEXTS, unique=True, max_size=4).filter(lambda texts: "replace:" not in "".join(texts)).map(tuple),
    )
)
def test_what_is_written_down_is_read_back_the_same(vary: Vary):
    assert parse_vary(str(vary)) == vary
    assert vary_word(str(vary)) == str(vary)


@pytest.mark.parametrize(
    ("given_value", "text"),
    [
        ({"effort": ["low", "high"]}, "effort=low,high"),
        ({"effort": "low,high", "temperature": True}, "effort=low,highxtemperature"),
        ({"effort": ["low"], "temperature": False}, "effort=low"),
        ({"models": {"a": 2, "b": 1}}, "models=a:2,b:1"),
        ({"instructions": ["Be brief.", "Be sure."]}, 'instructions=["Be brief.", "Be sure."]'),
        ({"instructions": 4}, "instructions=4"),
        ("effort=low", "effort=low"),
    ],
)
def test_python_and_files_may_give_a_mapping(given_value: Any, text: str):
    assert vary_text(given_value) == text
    assert load({"vary": given_value}).vary == str(parse_vary(text))


def test_a_run_that_does_not_vary_is_written_down_as_before():
    assert "vary" not in as_written(load({}))
    assert as_written(load({"vary": "effort=low"}))["vary"] == "effort=low"


def test_lines_of_dashes_divide_a_file_of_variants():
    text = "Answer from primary sources first.\n---\nreplace:\nYou are brief.\n\n- one --- two\n--- \r\nThink.\n---\n"
    first, second, third = parse_variants(text)
    assert varied("Own.", first) == "Answer from primary sources first.\n\nOwn."
    assert varied("Own.", second) == "You are brief.\n\n- one --- two"
    assert varied("", third) == "Think."


@pytest.mark.parametrize("text", ["", "\n---\na", "a\n---\n---\nb", "a\n---\nreplace:\n"])
def test_an_empty_variant_is_refused(text: str):
    with pytest.raises(ValueError, match="is empty"):
        parse_variants(text)


def test_the_levels_are_those_of_the_installed_client():
    literal = next(arm for arm in get_args(ReasoningEffort) if get_args(arm))
    assert get_args(literal) == EFFORTS


def test_recipes_are_counted_with_their_weights():
    assert parse_vary("effort=low,highxmodels=a:2,b:1xinstructions=4").count == 24
    assert parse_vary("temperature").count == 1
