"""Rubrics are data: what loads, and what is wrong with what does not."""

import json
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.core.errors import UsageError
from harness.core.records import Step
from harness.endpoints.costs import Priced
from harness.judging.judge_model import JudgeModel
from harness.judging.judges import PairwiseJudge
from harness.judging.prompt import Task, fixed_message, make_pair_prompt
from harness.judging.reply import read_reply, schema
from harness.judging.rubric import Rubric, load_rubric, packaged_rubrics, read_by
from harness.rubric_text.bounded import TRUSTED
from harness.transcripts.transcript import Transcript
from tests.builders import AT, a_transcript
from tests.judging.replies import WRITING, a_rubric, rubric_of
from tests.judging.scripted import ScriptedAsk

FRONT = """\
name: own
version: 2
path_weight: 0.4
answer_weight: 0.6
dimensions:
  - {key: depth, title: Depth, block: path, description: It goes deep.}
  - {key: wit, title: Wit, block: answer, description: It is funny.}
"""


def a_text(front: str = FRONT, body: str = "Mark them.") -> str:
    return f"---\n{front}---\n{body}\n"


def test_writing_is_the_rubric_of_the_design() -> None:
    assert "writing" in packaged_rubrics()
    assert (WRITING.name, str(WRITING.path_weight), str(WRITING.answer_weight)) == ("writing", "0.4", "0.6")
    assert [d.key for d in WRITING.block("path")] == ["understanding", "logic", "richness"]
    assert [d.key for d in WRITING.block("answer")] == ["relevance", "content_quality", "language_style", "clarity"]


@pytest.mark.parametrize("name", packaged_rubrics())
def test_every_packaged_rubric_loads_and_is_named_as_its_file(name: str) -> None:
    assert load_rubric(name).name == name


@pytest.mark.parametrize("name", packaged_rubrics())
def test_the_judge_reads_a_packaged_rubric_as_it_is_written(name: str) -> None:
    assert load_rubric(name).instructions == load_rubric(name).body


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("name: own\n", "", "name: Field required"),
        ("version: 2\n", "", "version: Field required"),
        ("version: 2", "version: two", "version: .*integer"),
        ("path_weight: 0.4\n", "", "path_weight: Field required"),
        ("0.4", "0.5", r"path_weight 0.5 \+ answer_weight 0.6 must be 1"),
        ("0.4", "much", "path_weight: .*decimal"),
        ("0.4", "-0.4", "path_weight: .*greater than or equal to 0"),
        ("0.4", ".nan", "path_weight: .*finite"),
        ("key: wit", "key: depth", "key is used twice among depth, depth"),
        ("key: wit", "key: Wit!", "dimensions.1.key: .*pattern"),
        ("title: Wit, ", "", "dimensions.1.title: Field required"),
        ("block: answer", "block: both", "dimensions.1.block: .*'path' or 'answer'"),
        ("block: answer", "block: path", "answer_weight is 0.6 but no dimension has block: answer"),
        (
            "description: It is funny.",
            "weight: 3, description: It is funny.",
            "dimensions.1.weight: unknown key; known: key",
        ),
        ("version: 2", "version: 2\ncolour: red", "colour: unknown key"),
        ("version: 2", "version: 2026-13-45", "not YAML: month must be in 1..12"),
        ("version: 2", "version: [", "not YAML"),
        ("version: 2", "7: 2", "version: Field required"),
        ("version: 2", "- 2", "not YAML"),
    ],
)
def test_a_fault_in_the_front_matter_is_a_usage_error_with_the_file_and_the_fault(
    old: str, new: str, fault: str
) -> None:
    with pytest.raises(UsageError, match=fault) as caught:
        rubric_of(a_text(FRONT.replace(old, new, 1)))
    assert str(caught.value).startswith("--rubric own.md:")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("dimensions", ["dimensions: []", "dimensions: 3", "dimensions: [depth]", ""])
def test_dimensions_that_are_none_are_a_usage_error(dimensions: str) -> None:
    with pytest.raises(UsageError, match=r"own\.md:(1|6): dimensions"):
        rubric_of(a_text(FRONT.partition("dimensions:")[0] + dimensions + "\n"))


@pytest.mark.parametrize(
    "body",
    [
        "{{ nobody }}",
        "{% if %}",
        "{{ ",
        "{% for d in dimensions %}",
        "{{ dimensions.nothing.at_all }}",
        "{{ 1 / 0 }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ cycler.__init__.__globals__.os.getcwd() }}",
        "{% include 'other.md' %}",
    ],
)
def test_a_body_that_cannot_be_rendered_is_a_usage_error_before_anything_is_spent(body: str) -> None:
    """A rubric is text that people pass on: its template reaches nothing of the program."""
    with pytest.raises(UsageError, match=r"own\.md:10: the body"):
        rubric_of(a_text(body=body))


def test_a_body_may_speak_of_its_own_dimensions() -> None:
    rubric = a_rubric(body="{{ name }}:{% for d in dimensions %} {{ d.key }}{% endfor %}", path=1, answer=2)
    prompt = make_pair_prompt(rubric, Task("q", "Why?"), a_transcript("one"), a_transcript("two"))
    assert prompt.system.startswith("own: p0 a0 a1\n")


def test_an_unknown_rubric_is_a_usage_error_with_the_known_ones_and_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"no rubric 'writting'; did you mean 'writing'\? Known: .*writing.*FILE\.md"):
        load_rubric("writting")


def test_equal_marks_give_equal_scores_and_better_ones_never_worse() -> None:
    rubric: Rubric = a_rubric(path=2, answer=2)
    low = rubric.score({"p0": 4, "p1": 5, "a0": 6, "a1": 7})
    for key in ("p0", "p1", "a0", "a1"):
        raised = {"p0": 4, "p1": 5, "a0": 6, "a1": 7} | {key: 10}
        assert rubric.score(raised).combined > low.combined


# ---- Faults are named by their line

FULL = """\
---
name: own
version: 2
path_weight: 0.4
answer_weight: 0.6
max_words: 300
caps:
  leaked_reasoning: {wit: 3}
  too_long:
    wit: 5
dimensions:
  - key: depth
    title: Depth
    block: path
    description: It goes deep.
  - {key: wit, title: Wit, block: answer, description: It is funny.}
---

Mark them
by {{ name }}.
"""


def faults_of(text: str) -> list[tuple[int, str]]:
    found = read_by(TRUSTED, text)
    return [] if isinstance(found, Rubric) else [(fault.line, fault.text) for fault in found]


@pytest.mark.parametrize(
    ("old", "new", "line", "fault"),
    [
        ("name: own\n", "", 1, "name: Field required"),
        ("version: 2", "version: two", 3, "version: "),
        ("0.6", "0.7", 5, "path_weight 0.4 + answer_weight 0.7 must be 1"),
        ("version: 2", "version: 2\ncolour: red", 4, "colour: unknown key; known: name"),
        ("max_words", "max_word", 6, "max_word: unknown key; did you mean 'max_words'?"),
        ("300", "0", 6, "max_words: "),
        ("max_words: 300", "body: x", 6, "body: unknown key"),
        ("max_words: 300", "rounding: half-even", 6, "rounding: Input should be 'half-up'"),
        ("max_words: 300\n", "", 8, "caps.too_long: needs max_words"),
        ("leaked_reasoning", "leaks", 8, "caps.leaks: Input should be 'leaked_reasoning'"),
        ("{wit: 3}", "{wit: 11}", 8, "caps.leaked_reasoning.wit: "),
        ("{wit: 3}", "{wut: 3}", 8, "caps.leaked_reasoning: no dimension 'wut'; did you mean 'wit'?"),
        ("{wit: 3}", "{depth: 3}", 8, "caps.leaked_reasoning.depth: is found in answers; depth marks the path"),
        ("wit: 5", "wit: five", 10, "caps.too_long.wit: "),
        ("    title: Depth\n", "", 12, "dimensions.0.title: Field required"),
        ("title: Depth", "titel: Depth", 13, "dimensions.0.titel: unknown key; did you mean 'title'?"),
        ("key: depth", "key: overall_p", 12, "dimensions.0.key: the reply's form has an overall_p of its own"),
        ("key: wit", "key: depth", 16, "a dimension's key is used twice among depth, depth"),
        ("block: answer", "block: path", 5, "answer_weight is 0.6 but no dimension has block: answer"),
        ("block: path", "block: both", 14, "dimensions.0.block: "),
        ("version: 2", "version: 2026-13-45", 3, "version: not YAML: month must be in 1..12"),
        ("version: 2", "version: [", 5, "the front matter is not YAML: expected ',' or ']', but got ':' in what"),
        ("version: 2", "version: 2\nversion: 3", 4, "version: stands twice"),
        ("key: wit,", "key: wit, key: wit,", 16, "key: stands twice"),
        ("version: 2", "version: \x01", 3, "the front matter is not YAML: "),
        ("version: 2", "version: !!python/object:os.system {}", 3, "version: not YAML: "),
        ("version: 2", "version: " + "[" * 600, 2, "the front matter is not YAML: it is nested too deeply"),
        ("{{ name }}", "{{ nane }}", 20, "the body uses a variable 'nane' that there is not; did you mean 'name'?"),
        ("Mark them", "{% if x %}", 20, "the body is no template: "),
        ("{{ name }}", "{{ name.first.letter }}", 20, "the body cannot be rendered: "),
        ("{{ name }}", "{{ 1 / 0 }}", 20, "the body cannot be rendered: division by zero"),
    ],
)
def test_each_fault_is_named_with_its_line(old: str, new: str, line: int, fault: str) -> None:
    found = faults_of(FULL.replace(old, new, 1))
    assert [at for at, said in found if said.startswith(fault)] == [line], found


def test_all_faults_are_found_at_once_and_loading_names_the_first_with_file_and_line() -> None:
    assert faults_of(FULL) == []
    text = FULL.replace("version: 2", "version: two").replace("title: Depth", "titel: Depth")
    text = text.replace("{{ name }}", "{{ nane }} {{ dimension }}")
    assert [line for line, _ in faults_of(text)] == [3, 12, 13, 20, 20]
    with pytest.raises(UsageError) as caught:
        rubric_of(text)
    assert str(caught.value).startswith("--rubric own.md:3: version: ")
    assert str(caught.value).endswith("(and 4 more: see `harness rubric check own.md`)")


LINES = st.sampled_from([*FULL.splitlines(), "---", "a: [", "- b", "{{ x", "&a *a", "? :", "\ud800", "\x00"])


@given(st.lists(LINES | st.text(max_size=9)).map("\n".join))
@example(FULL.replace("own", "\ud800"))
@example("---\n" + "{" * 600 + "\n---")
@example("---\n? [a]\n: b\n---")
def test_no_text_raises_anything_whatever_is_wrong_with_it(text: str) -> None:
    found = read_by(TRUSTED, text)
    assert isinstance(found, Rubric) or all(1 <= line <= text.count("\n") + 2 for line, _ in found)


# ---- One block alone


@pytest.mark.parametrize("block", ["path", "answer"])
def test_a_block_of_weight_0_is_not_asked_for_though_the_file_names_its_dimensions(block: str) -> None:
    weights = {"path": ("1", "0"), "answer": ("0", "1")}[block]
    rubric = a_rubric(f"path_weight: {weights[0]}\nanswer_weight: {weights[1]}", path=2, answer=2)
    other = {"path": "answer", "answer": "path"}[block]
    assert [d.key for d in rubric.dimensions] == [f"{block[0]}0", f"{block[0]}1"]
    assert rubric.left_out == (f"{other[0]}0", f"{other[0]}1")
    prompt = make_pair_prompt(rubric, Task("q", "Why?"), a_transcript("one"), a_transcript("two"))
    for told in (prompt.system, json.dumps(schema(rubric))):
        assert f"{block}_scores" in told
        assert f"{other}_scores" not in told
        assert f"{other}_A" not in told
        assert f"`{other[0]}0`" not in told
    assert set(schema(rubric)["properties"]["analysis"]["properties"]) == {f"{block}_A", f"{block}_B"}
    assert f"overall_{other[0]}" not in prompt.system


def test_where_only_answers_count_transcripts_with_equal_answers_are_one_question_and_else_not() -> None:
    step = Step(kind="tool", tool_name="search", tool_output="found")
    same, longer, other = a_transcript("one"), a_transcript("one", (step,)), a_transcript("two")
    answers = a_rubric("path_weight: 0\nanswer_weight: 1")
    paths = a_rubric("path_weight: 1\nanswer_weight: 0")

    def key(rubric: Rubric, first: Transcript, second: Transcript) -> str:
        pricing = Priced("m", None, free=True)
        model = JudgeModel(ScriptedAsk(), identity="m", pricing=pricing, keep=str, clock=lambda: AT)
        return PairwiseJudge(model, rubric).key(Task("q", "Why?"), first, second)

    assert key(answers, same, other) == key(answers, longer, other)
    assert key(answers, same, longer) == key(answers, longer, same)
    assert key(paths, same, longer) == key(paths, other, longer)
    assert key(paths, same, longer) != key(paths, longer, same)
    assert key(a_rubric(), same, other) != key(a_rubric(), longer, other)
    assert len({key(r, same, other) for r in (answers, paths, a_rubric())}) == 3


# ---- The rubrics that come with the package


@pytest.mark.parametrize(
    ("name", "weights", "path", "answer"),
    [
        ("research", ("0.5", "0.5"), ["plan", "tool_use", "coverage"], ["relevance", "accuracy", "depth", "clarity"]),
        ("task", ("0.3", "0.7"), ["efficiency", "no_detours"], ["goal_reached"]),
    ],
)
def test_the_other_packaged_rubrics_mark_what_the_design_says(
    name: str, weights: tuple[str, str], path: list[str], answer: list[str]
) -> None:
    rubric = load_rubric(name)
    assert (str(rubric.path_weight), str(rubric.answer_weight)) == weights
    assert [d.key for d in rubric.block("path")] == path
    assert [d.key for d in rubric.block("answer")] == answer


@pytest.mark.parametrize("name", packaged_rubrics())
def test_prompt_example_schema_and_what_is_read_name_the_same_dimensions(name: str) -> None:
    """They are made from the rubric, all four, so that they cannot disagree."""
    rubric = load_rubric(name)
    told = re.findall(r"^- `(\w+)` \((\w+)\)", fixed_message(rubric), re.MULTILINE)
    assert told == [(d.key, d.block) for d in rubric.dimensions]
    form = schema(rubric)["properties"]
    shown = json.loads(fixed_message(rubric).partition("Its form:\n\n")[2].partition("\n\n")[0])
    assert list(shown) == list(form)
    for block in ("path", "answer"):
        keys = [*(key for key, of in told if of == block), f"overall_{block[0]}"]
        for side in ("LLM_A", "LLM_B"):
            assert list(form[f"{block}_scores"]["properties"][side]["properties"]) == keys
            assert list(shown[f"{block}_scores"][side]) == keys
    marked = {f"{b}_scores": {"LLM_A": _all(shown, b, 7), "LLM_B": _all(shown, b, 5)} for b in ("path", "answer")}
    found = read_reply(json.dumps(shown | marked), rubric)
    assert list(found.a.dimensions) == [key for key, _ in told]
    assert (found.a.combined, found.b.combined, found.winner) == (7, 5, "A")


def _all(shown: dict[str, Any], block: str, mark: int) -> dict[str, int]:
    return dict.fromkeys(shown[f"{block}_scores"]["LLM_A"], mark)


def test_the_longest_answer_asked_for_is_told_to_the_judge() -> None:
    told = fixed_message(a_rubric("path_weight: 0.4\nanswer_weight: 0.6\nmax_words: 321"))
    assert "at most 321 words" in told
    assert "words" not in fixed_message(a_rubric())
