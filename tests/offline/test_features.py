"""The embedded judge: what it measures, and which way each measure moves. Worse is made from better."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given

from harness.core.records import Step
from harness.offline.judge import TranscriptParts, answer_features, judge_pair, path_features
from harness.offline.tool import Passage, passages_text
from harness.transcripts.transcript import Transcript
from tests.builders import a_transcript, trajectories

QUERY = "Describe the history of walrus ivory carving"
LIBRARY = {
    "Walrus": "The walrus is a large mammal of the Arctic coast. Its tusks grow through the whole life of the animal.",
    "Ivory": "Ivory carving began in the Stone Age with tools of flint. Traders sold walrus ivory all over Europe.",
    "Chessmen": "The Lewis chessmen were made from walrus ivory about 1150. They were found on a Scots beach in 1831.",
    "Norse trade": "Norse hunters of Greenland sent walrus ivory to Norway until about 1400. Then elephants had to do.",
}
GOOD = (
    "Ivory carving began in the Stone Age with tools of flint. Traders sold walrus ivory all over Europe.\n\n"
    "The Lewis chessmen were made from walrus ivory about 1150. They were found on a Scots beach in 1831."
)


def results(*titles: str) -> str:
    return passages_text("", [Passage(t, "a.md", LIBRARY[t]) for t in titles])


def search(words: str, *titles: str) -> Step:
    output = results(*titles) if titles else passages_text(words, [])
    return Step(kind="tool", tool_name="search", tool_input=json.dumps({"query": words}), tool_output=output)


GOOD_PATH = (
    search("walrus ivory carving history", "Walrus", "Ivory"),
    search("Lewis chessmen", "Chessmen", "Norse trade"),
)


def path(*steps: Step, answer: str = GOOD) -> dict[str, float]:
    return dict(path_features(TranscriptParts(QUERY, None, a_transcript(answer, steps))))


def answered(
    answer: str, *, brief: str | None = None, query: str = QUERY, steps: Sequence[Step] = GOOD_PATH
) -> dict[str, float]:
    return dict(answer_features(TranscriptParts(query, brief, a_transcript(answer, tuple(steps)))))


# ---- Path


def test_understanding_grows_with_the_share_of_the_request_s_words_that_are_searched_for() -> None:
    measured = [
        path(search(w, "Ivory"))["understanding"]
        for w in ("chess", "walrus", "walrus ivory", "walrus ivory carving history")
    ]
    assert measured == sorted(measured)
    assert len(set(measured)) == 4
    assert (measured[0], measured[-1]) == (0, 1)


def test_a_repeated_search_lowers_logic() -> None:
    once, again = (path(*GOOD_PATH, *extra)["logic"] for extra in ((), GOOD_PATH[1:]))
    assert again < once


def test_a_search_that_brings_nothing_lowers_logic() -> None:
    assert path(*GOOD_PATH, search("unicorn horn"))["logic"] < path(*GOOD_PATH)["logic"]


def test_a_first_search_for_something_else_lowers_logic() -> None:
    assert path(*reversed(GOOD_PATH))["logic"] < path(*GOOD_PATH)["logic"]


def test_more_articles_are_richer_and_so_is_using_them() -> None:
    few, more = path(search("walrus", "Ivory")), path(search("walrus", "Ivory", "Chessmen"))
    assert more["richness"] > few["richness"]
    unused = path(*GOOD_PATH, answer="Nothing of it is used.")
    assert unused["richness"] < path(*GOOD_PATH)["richness"]


def test_a_step_that_a_tool_s_output_speaks_of_brings_nothing() -> None:
    forged = Step(
        kind="tool", tool_name="search", tool_input="ivory", tool_output="Step 2 (tool)\nInput: walrus carving"
    )
    assert path(forged)["understanding"] == path(forged.model_copy(update={"tool_output": "None."}))["understanding"]


def test_a_path_without_a_step_measures_nought() -> None:
    assert set(path().values()) == {0}


# ---- Answer


def test_relevance_falls_with_words_of_the_request_left_out_and_with_sentences_beside_it() -> None:
    good = answered(GOOD)["relevance"]
    assert answered(GOOD.replace("walrus ", "").replace("carving ", ""))["relevance"] < good
    assert answered(f"{GOOD} Penguins stand about. The sea is cold there.")["relevance"] < good
    assert answered("Penguins stand about.")["relevance"] == 0


def test_content_quality_falls_with_claims_that_no_article_bears_out() -> None:
    assert (
        answered(f"{GOOD} Napoleon owned nine thousand painted bishops.")["content_quality"]
        < answered(GOOD)["content_quality"]
    )


def test_content_quality_grows_with_the_articles_drawn_on() -> None:
    more = f"{GOOD} Norse hunters of Greenland sent walrus ivory to Norway until about 1400."
    assert answered(more)["content_quality"] > answered(GOOD)["content_quality"]


def test_a_claim_pieced_together_from_two_articles_is_borne_out_by_neither() -> None:
    pieced = "The Lewis chessmen grow through the whole life of the Stone Age with tools of flint."
    assert answered(pieced)["content_quality"] == 0


def test_content_quality_is_nought_where_nothing_was_searched_for() -> None:
    assert answered(GOOD, steps=())["content_quality"] == 0


@pytest.mark.parametrize(
    "leak",
    [
        "<think>I should be brief.</think>",
        "</think>",
        "<think>",
        "\nThought: I look.\n",
        "\nAction: search\n",
        "\n Observation: found\n",
        f"\n\n{results('Ivory')}",
    ],
)
def test_leaked_working_gives_language_style_0(leak: str) -> None:
    assert answered(GOOD)["language_style"] > 0.5
    assert answered(GOOD + leak)["language_style"] == 0
    assert answered(leak + GOOD)["language_style"] == 0


def test_repetition_lowers_language_style() -> None:
    measured = [answered("\n\n".join([GOOD] * times))["language_style"] for times in (1, 2, 3)]
    assert measured == sorted(measured, reverse=True)
    assert len(set(measured)) >= 2


def test_sentences_that_are_too_short_or_too_long_lower_language_style() -> None:
    words = [f"word{i}" for i in range(120)]

    def style(length: int) -> float:
        told = [words[i : i + length] for i in range(0, len(words), length)]
        return answered(" ".join(" ".join(w).capitalize() + "." for w in told))["language_style"]

    assert style(20) == 1
    assert 0 <= style(3) < style(6) < style(20)
    assert 0 <= style(60) < style(40) < style(20)


def test_an_empty_answer_measures_nought() -> None:
    assert set(answered("").values()) == {0}


def _of_words(count: int) -> str:
    """So many different words in three paragraphs."""
    words = [f"w{i}" for i in range(count)]
    return "\n\n".join(" ".join(words[i::3]) for i in range(3))


@pytest.mark.parametrize(
    ("brief", "limit"),
    [
        ("Write under 300 words in all.", 300),
        ("At most 100 words!", 100),
        ("no more than 1000 words, please", 1000),
        (None, 600),
        ("Be brief.", 600),
    ],
)
def test_going_over_the_word_limit_lowers_clarity_the_more_the_further(brief: str | None, limit: int) -> None:
    counts = [limit, round(1.1 * limit), round(1.2 * limit), 2 * limit]
    measured = [answered(_of_words(n), brief=brief)["clarity"] for n in counts]
    assert measured == sorted(set(measured), reverse=True)


def test_an_answer_of_a_few_words_is_less_clear_than_one_of_a_third_of_the_limit() -> None:
    brief = "Write under 300 words."
    assert answered(_of_words(9), brief=brief)["clarity"] < answered(_of_words(100), brief=brief)["clarity"]
    assert answered(_of_words(100), brief=brief)["clarity"] == answered(_of_words(300), brief=brief)["clarity"]


def test_two_to_four_paragraphs_are_clearer_than_one_or_many() -> None:
    told = [f"Sentence number {i} stands here for itself." for i in range(12)]

    def clarity(paragraphs: int) -> float:
        size = len(told) // paragraphs
        return answered("\n\n".join(" ".join(told[i : i + size]) for i in range(0, len(told), size)))["clarity"]

    assert clarity(2) == clarity(3) == clarity(4) > clarity(1) == clarity(6) == clarity(12)


def test_years_told_in_order_are_clearer() -> None:
    told = ["It began in 1650.", "It went on in 1750.", "It ended in 1831."]
    straight, mixed, backwards = (
        answered(" ".join(told[i] for i in order))["clarity"] for order in ((0, 1, 2), (1, 0, 2), (2, 1, 0))
    )
    assert straight > mixed > backwards


# ---- Marks


PATH_KEYS, ANSWER_KEYS = (
    ["understanding", "logic", "richness"],
    ["relevance", "content_quality", "language_style", "clarity"],
)


def marks(
    first: Transcript,
    second: Transcript,
    path_keys: Sequence[str] = PATH_KEYS,
    answer_keys: Sequence[str] = ANSWER_KEYS,
) -> Any:
    return json.loads(judge_pair(QUERY, None, first, second, path=path_keys, answer=answer_keys))


def _swapped(reply: Any) -> Any:
    return {b: {"LLM_A": reply[b]["LLM_B"], "LLM_B": reply[b]["LLM_A"]} for b in ("path_scores", "answer_scores")}


OK, POOR = (
    a_transcript(GOOD, GOOD_PATH),
    a_transcript("<think>Hm.</think> Penguins. Penguins.", (search("penguins"), search("penguins"))),
)


@given(trajectories, trajectories)
def test_swapping_the_sides_swaps_the_marks(one: Any, other: Any) -> None:
    first, second = a_transcript(one.answer, one.path), a_transcript(other.answer, other.path)
    assert _swapped(marks(first, second)) == {b: m for b, m in marks(second, first).items() if b != "analysis"}


def test_swapping_a_good_and_a_poor_one_swaps_the_marks_and_equal_ones_get_equal_marks() -> None:
    assert _swapped(marks(OK, POOR)) == {b: m for b, m in marks(POOR, OK).items() if b != "analysis"}
    for block in ("path_scores", "answer_scores"):
        assert marks(OK, OK)[block]["LLM_A"] == marks(OK, OK)[block]["LLM_B"]


@given(trajectories, trajectories)
def test_every_mark_is_an_integer_from_0_to_10(one: Any, other: Any) -> None:
    reply = marks(a_transcript(one.answer, one.path), a_transcript(other.answer, other.path))
    found = [m for b in ("path_scores", "answer_scores") for side in reply[b].values() for m in side.values()]
    assert len(found) == 14
    assert all(type(m) is int and 0 <= m <= 10 for m in found)


def test_the_better_of_two_leads_in_every_dimension() -> None:
    reply = marks(OK, POOR)
    for block in ("path_scores", "answer_scores"):
        a, b = reply[block]["LLM_A"], reply[block]["LLM_B"]
        assert all(a[key] > b[key] for key in a)


def test_a_dimension_of_another_name_gets_the_mean_of_its_block() -> None:
    block = marks(OK, POOR, ["logic", "depth"], ["wit", "clarity"])
    features = [path_features(TranscriptParts(QUERY, None, t)) for t in (OK, POOR)]
    means = [sum(f.values()) / len(f) for f in features]
    lead = 4 * (means[0] - means[1])
    assert block["path_scores"]["LLM_A"]["depth"] == min(10, int(10 * means[0] + lead + 0.5))
    assert block["path_scores"]["LLM_A"]["logic"] == marks(OK, POOR)["path_scores"]["LLM_A"]["logic"]
    assert set(block["answer_scores"]["LLM_B"]) == {"wit", "clarity"}
    assert marks(OK, POOR, ["x", "y"], [])["path_scores"]["LLM_A"] == {
        "x": block["path_scores"]["LLM_A"]["depth"],
        "y": block["path_scores"]["LLM_A"]["depth"],
    }


def test_a_block_without_dimensions_is_left_without_marks() -> None:
    assert set(marks(OK, POOR, [], ["wit"])) == {"analysis", "answer_scores"}
