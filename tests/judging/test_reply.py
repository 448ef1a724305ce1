"""Reading a judge's reply: the right scores, or a ReplyError; never another exception, never a wrong score."""

import json
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.judging.reply import ReplyError, read_reply, schema
from harness.judging.reply import example as example_of
from tests.judging.replies import ANSWER, MARKS, PATH, WRITING, a_reply, a_rubric, marks_of, text_of

GOOD = text_of(7, 5)
DECOY = text_of(1, 9)
THREE = json.dumps(a_reply(marks_of(3), marks_of(3)))


def read(text: str) -> tuple[float, float, str]:
    found = read_reply(text, WRITING)
    return found.a.combined, found.b.combined, found.winner


# ---- What is read


@given(MARKS, MARKS)
def test_marks_are_read_as_they_stand(a: dict[str, int], b: dict[str, int]) -> None:
    found = read_reply(json.dumps(a_reply(a, b)), WRITING)
    assert (found.a.dimensions, found.b.dimensions) == (a, b)


@given(MARKS, MARKS)
def test_swapping_the_sides_swaps_the_scores_and_the_winner(a: dict[str, int], b: dict[str, int]) -> None:
    one, other = (read_reply(json.dumps(a_reply(*sides)), WRITING) for sides in ((a, b), (b, a)))
    assert (one.a, one.b) == (other.b, other.a)
    assert one.winner == {"A": "B", "B": "A", "tie": "tie"}[other.winner]


@given(
    MARKS,
    MARKS,
    st.sampled_from(["LLM_A", "LLM_B", "Tie", "", None, 1, [], {}]),
    st.integers(0, 10),
    st.integers(0, 10),
)
def test_overalls_and_winner_follow_from_the_marks_whatever_the_judge_claims(
    a: dict[str, int], b: dict[str, int], winner: Any, p: int, c: int
) -> None:
    claimed = a_reply(a, b, winner=winner, combined_scores={"LLM_A": c, "LLM_B": p})
    claimed["path_scores"]["LLM_A"]["overall_p"] = p
    found = read_reply(json.dumps(claimed), WRITING)
    for marks, side in ((a, found.a), (b, found.b)):
        path, answer = (_half_up(sum(marks[k] for k in keys), len(keys)) for keys in (PATH, ANSWER))
        assert (side.path, side.answer) == (path, answer)
        assert side.combined == float(Fraction(4 * path + 6 * answer, 10))
    expected = (found.a.combined > found.b.combined) - (found.a.combined < found.b.combined)
    assert found.winner == {1: "A", -1: "B", 0: "tie"}[expected]


def _half_up(total: int, count: int) -> int:
    return math.floor(Fraction(total, count) + Fraction(1, 2))


@pytest.mark.parametrize(
    ("marks", "overall"), [((7, 8), 8), ((6, 7), 7), ((0, 1), 1), ((9, 10), 10), ((8, 8, 9), 8), ((8, 9, 9), 9)]
)
def test_a_block_s_mean_is_rounded_half_up_and_not_half_to_even(marks: tuple[int, ...], overall: int) -> None:
    rubric = a_rubric(answer=len(marks))
    assert rubric.score({"p0": 0} | {f"a{i}": m for i, m in enumerate(marks)}).answer == overall


@pytest.mark.parametrize(
    ("weights", "path", "answer", "combined"),
    [
        (("0.25", "0.75"), 1, 0, 0.3),
        (("0.25", "0.75"), 3, 0, 0.8),
        (("0.25", "0.75"), 5, 10, 8.8),
        (("0.45", "0.55"), 9, 0, 4.1),
        (("0.4", "0.6"), 7, 8, 7.6),
        (("0.05", "0.95"), 1, 10, 9.6),
    ],
)
def test_the_combined_score_is_rounded_half_up_as_a_decimal(
    weights: tuple[str, str], path: int, answer: int, combined: float
) -> None:
    rubric = a_rubric(f"path_weight: {weights[0]}\nanswer_weight: {weights[1]}")
    assert rubric.score({"p0": path, "a0": answer}).combined == combined


@pytest.mark.parametrize(("path", "answer"), [(0, 2), (2, 0)])
def test_a_rubric_may_do_without_one_block(path: int, answer: int) -> None:
    rubric = a_rubric(f"path_weight: {int(bool(path))}\nanswer_weight: {int(bool(answer))}", path=path, answer=answer)
    name, keys = ("path_scores", ["p0", "p1"]) if path else ("answer_scores", ["a0", "a1"])
    reply = {name: {"LLM_A": dict.fromkeys(keys, 6), "LLM_B": dict.fromkeys(keys, 4)}}
    found = read_reply(json.dumps(reply), rubric)
    assert (found.a.combined, found.b.combined) == (6, 4)
    assert (found.a.path, found.a.answer) == ((6, None) if path else (None, 6))


# ---- Marks in odd clothes


@pytest.mark.parametrize("written", ["8", '"8"', "8.0", '" 8 "', "8e0", '"8.0"', "80e-1", "8.000000000000000000000"])
def test_eight_is_eight_however_it_is_written(written: str) -> None:
    text = THREE.replace('"understanding": 3', f'"understanding": {written}', 1)
    assert read_reply(text, WRITING).a.dimensions["understanding"] == 8


@pytest.mark.parametrize(
    "written",
    [
        "7.5",
        "11",
        "-1",
        "NaN",
        "Infinity",
        "-Infinity",
        "true",
        "false",
        "null",
        '""',
        '"eight"',
        '"8/10"',
        "[8]",
        '{"score": 8}',
        "10.000000000000000000000001",
        "-0.1",
        "1e400",
        "1e9999999",
        "-1e9999999",
        "1e99999999999999999999999",
        "1e-9999999",
        '"NaN"',
        '"Infinity"',
        '"sNaN"',
        '"1e9999999"',
        "9" * 5000,
        "08",
        '"\\ud800"',
        "1" * 400,
    ],
)
def test_a_mark_that_is_no_integer_from_0_to_10_is_an_error_and_never_clipped(written: str) -> None:
    with pytest.raises(ReplyError):
        read(THREE.replace('"understanding": 3', f'"understanding": {written}', 1))


@pytest.mark.parametrize("side", ["LLM_A", "LLM_B"])
@pytest.mark.parametrize("key", [*PATH, *ANSWER])
def test_a_missing_mark_is_an_error_that_names_its_place(key: str, side: str) -> None:
    reply = a_reply(marks_of(7), marks_of(5))
    block = "path_scores" if key in PATH else "answer_scores"
    del reply[block][side][key]
    with pytest.raises(ReplyError, match=rf"{block}\.{side}\.{key} is missing"):
        read(json.dumps(reply))


@pytest.mark.parametrize("broken", [None, [], "7", 7, {}, {"LLM_A": marks_of(7)}, {"LLM_A": [], "LLM_B": []}])
@pytest.mark.parametrize("block", ["path_scores", "answer_scores"])
def test_a_block_that_is_no_pair_of_sides_is_an_error(block: str, broken: Any) -> None:
    with pytest.raises(ReplyError, match="missing"):
        read(json.dumps(a_reply(marks_of(7), marks_of(5)) | {block: broken}))


# ---- What is around the object


@pytest.mark.parametrize(
    "wrap",
    [
        lambda t: f"Here is my verdict.\n\n{t}\n\nI hope that it helps!",
        lambda t: f"```json\n{t}\n```",
        lambda t: f"```\n{t}\n```",
        lambda t: f"\ufeff  {t}\n",
        lambda t: f"I compare {{A}} with {{B}}: {t}",
        lambda t: f"{{{{ {t} }}}}",
        lambda t: f"[{t}]",
        lambda t: f"{t}\n{t}",
        lambda t: f"{t}\nand again, set out nicely:\n{json.dumps(json.loads(t), indent=4)}",
        lambda t: f'{{"note": "a first thought"}} {t}',
        lambda t: f'The form is {{"analysis": {{...}}, "winner": ...}}, so: {t}',
        lambda t: f"<think>B first? {DECOY} No.</think>{t}",
        lambda t: f'<think>{{ unbalanced " {DECOY}</think>\n\n{t}',
        lambda t: f"<think>one {DECOY}</think><think>two {DECOY}</think>{t}",
        lambda t: f"<thinking>{DECOY}</thinking>{t}",
        lambda t: f"The template had opened the block. {DECOY}</think>{t}",
        lambda t: f"<think>a tag </think> in a thought, {DECOY}</think>{t}",
        lambda t: t[:-1] + ', "LLM_C": {}, "path_notes": {"LLM_A": {"understanding": 1}}}',
    ],
)
def test_a_reply_is_found_in_whatever_it_is_wrapped_in(wrap: Callable[[str], str]) -> None:
    assert read(wrap(GOOD)) == (7, 5, "A")


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "null",
        "7",
        "[]",
        "{}",
        "LLM_A is better, 8 to 6.",
        '"path_scores"',
        "{",
        "}",
        "{{}}",
        "\x00",
        f"{GOOD} {DECOY}",
        f"<think>{GOOD}</think>",
        f"<think>{GOOD}",
        f"{GOOD}</think>",
        f"{DECOY} or rather {THREE}",
        json.dumps({"result": json.loads(GOOD)}),
        json.dumps({"draft": json.loads(DECOY), "final": json.loads(GOOD)}),
        json.dumps(GOOD),
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"' * 100_000,
        '{"\\"' * 100_000,
        '{"path_scores":' * 5_000 + GOOD,
        "{'path_scores': {'LLM_A': {'understanding': 7}}}",
        GOOD.replace('"understanding": 7', '"understanding": 2, "understanding": 7', 1),
        GOOD[:-1] + ', "path_scores": ' + json.dumps(json.loads(DECOY)["path_scores"]) + "}",
        GOOD.replace(",", ",,", 1),
        GOOD.replace(": 7", ": 7 // good", 1),
    ],
)
def test_what_holds_no_one_readable_set_of_marks_is_an_error(text: str) -> None:
    with pytest.raises(ReplyError):
        read(text)


def test_a_reply_cut_off_anywhere_is_an_error_also_where_a_whole_object_with_marks_stands_inside() -> None:
    whole = json.dumps({"draft": json.loads(DECOY), "analysis": {"path_A": f"it says {DECOY}"}} | json.loads(GOOD))
    assert read(whole) == (7, 5, "A")
    for end in range(len(whole)):
        with pytest.raises(ReplyError):
            read(whole[:end])


def test_the_judge_may_speak_of_think_tags_in_its_analysis() -> None:
    said = {"answer_A": "it leaks a <think> block", "answer_B": "it closes </think> what it never opened"}
    found = read_reply(text_of(7, 5, analysis=said), WRITING)
    assert found.analysis == said
    late = json.dumps(json.loads(GOOD) | {"analysis": said, "note": "</think>"})
    assert read(late) == (7, 5, "A")


# ---- Fuzz


FRAGMENTS = st.sampled_from(
    [
        "{",
        "}",
        "[",
        "]",
        '"',
        ":",
        ",",
        "\\",
        "<think>",
        "</think>",
        "```json",
        '"path_scores"',
        '"LLM_A"',
        "7",
        "1e9",
        "NaN",
        "null",
        "\ud800",
        "\x00",
        GOOD,
        DECOY,
        "path_scores",
        " ",
    ]
)


@given(st.lists(FRAGMENTS | st.text(max_size=5), max_size=12).map("".join))
@example("\udfff")
def test_no_text_raises_anything_but_a_reply_error_or_yields_scores_that_do_not_stand_in_it(text: str) -> None:
    try:
        found = read(text)
    except ReplyError:
        return
    assert found in ((7, 5, "A"), (1, 9, "B"))
    assert GOOD in text or DECOY in text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["LLM_A", "LLM_B", "logic", "x"]), inner)
    ),
    max_leaves=5,
)


@given(
    st.dictionaries(st.sampled_from(["path_scores", "answer_scores", "analysis", "winner", "combined_scores"]), JSON)
)
def test_no_object_raises_anything_but_a_reply_error_and_what_is_read_can_be_stored(parts: dict[str, Any]) -> None:
    for text in (
        json.dumps(parts),
        json.dumps(json.loads(GOOD) | {k: v for k, v in parts.items() if "scores" not in k}),
    ):
        try:
            found = read_reply(text, WRITING)
        except ReplyError:
            continue
        assert (found.a.combined, found.b.combined) == (7, 5)
        json.dumps([found.analysis, found.claims], allow_nan=False, ensure_ascii=False).encode()


@pytest.mark.parametrize("depth", range(800, 1000, 7))
@pytest.mark.parametrize("place", ["analysis", "winner", "mark"])
def test_deep_nesting_is_read_or_is_an_error(depth: int, place: str) -> None:
    nest = "[" * depth + "]" * depth
    more = {"analysis": f'"analysis": {{"path_A": {nest}}}', "winner": f'"winner": {nest}', "mark": '"x": 0'}[place]
    text = GOOD.replace('"logic": 7', f'"logic": {nest if place == "mark" else 7}', 1)[:-1] + f", {more}}}"
    try:
        assert read(text) == (7, 5, "A")
    except ReplyError:
        assert depth > 900 or place == "mark"


# ---- Claims


def test_claims_are_kept_only_where_they_differ_from_what_the_marks_give() -> None:
    right = {"winner": "LLM_A", "combined_scores": {"LLM_A": 7, "LLM_B": "5.0"}}
    assert read_reply(text_of(7, 5, **right), WRITING).claims == {}
    wrong = {"winner": "LLM_B", "combined_scores": {"LLM_A": 7.5, "LLM_B": 5.0}}
    assert read_reply(text_of(7, 5, **wrong), WRITING).claims == {"winner": "LLM_B", "combined_scores.LLM_A": 7.5}


@pytest.mark.parametrize(
    ("claimed", "kept"),
    [(8, 8), ("8", "8"), (True, True), ([7], [7]), ({"a": 1.5}, {"a": 1.5}), ("LLM_Ä", "LLM_Ä"), ("\ud800", "\ufffd")],
)
def test_a_winner_that_is_none_of_the_three_is_a_claim_like_any_other(claimed: Any, kept: Any) -> None:
    assert read_reply(text_of(7, 5, winner=claimed), WRITING).claims == {"winner": kept}


@pytest.mark.parametrize("number", ["1e400", "1e9999999", "-1e400"])
def test_a_claim_too_large_for_a_float_is_kept_as_text(number: str) -> None:
    text = GOOD[:-1] + f', "combined_scores": {{"LLM_A": {number}}}}}'
    (kept,) = read_reply(text, WRITING).claims.values()
    assert isinstance(kept, str)


def test_overalls_that_are_claimed_differently_are_kept_by_their_place() -> None:
    reply = a_reply(marks_of(7), marks_of(5))
    reply["path_scores"]["LLM_A"]["overall_p"], reply["answer_scores"]["LLM_B"]["overall_a"] = 9, 5
    assert read_reply(json.dumps(reply), WRITING).claims == {"path_scores.LLM_A.overall_p": 9}


def test_the_analysis_is_kept_as_text_that_can_be_stored() -> None:
    said = {"path_A": "step 2 repeats step 1", "path_B": 7, "answer_A": "half a pair: \ud83d", "answer_B": None}
    found = read_reply(text_of(analysis=said), WRITING)
    assert found.analysis == {
        "path_A": "step 2 repeats step 1",
        "path_B": "7",
        "answer_A": "half a pair: \ufffd",
        "answer_B": "None",
    }
    assert read_reply(text_of(analysis="none"), WRITING).analysis == {}


# ---- The form asked for


@pytest.mark.parametrize(
    "rubric", [WRITING, a_rubric(path=3, answer=2), a_rubric("path_weight: 0\nanswer_weight: 1", path=0)]
)
def test_the_schema_and_the_example_name_the_rubric_s_dimensions_and_no_others(rubric: Any) -> None:
    form, shown = schema(rubric), example_of(rubric)
    for block, name, overall in (("path", "path_scores", "overall_p"), ("answer", "answer_scores", "overall_a")):
        keys = [d.key for d in rubric.block(block)]
        assert (name in form["properties"]) == (name in shown) == bool(keys)
        if keys:
            for side in ("LLM_A", "LLM_B"):
                assert list(form["properties"][name]["properties"][side]["properties"]) == [*keys, overall]
                assert list(shown[name][side]) == [*keys, overall]


@given(MARKS, MARKS)
def test_a_reply_in_the_schema_s_form_is_always_read(a: dict[str, int], b: dict[str, int]) -> None:
    marks = {"LLM_A": a, "LLM_B": b}

    def fill(form: Any, side: str = "", key: str = "") -> Any:
        if form["type"] == "object":
            assert form["additionalProperties"] is False
            assert form["required"] == list(form["properties"])
            return {k: fill(v, k if k in marks else side, k) for k, v in form["properties"].items()}
        return {"string": form.get("enum", ["said"])[0], "integer": marks.get(side, {}).get(key, 0), "number": 0.5}[
            form["type"]
        ]

    found = read_reply(json.dumps(fill(schema(WRITING))), WRITING)
    assert (found.a.dimensions, found.b.dimensions) == (a, b)
