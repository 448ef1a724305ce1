"""Files of other programs: each is recognised, its rewards and groups are kept, and nothing is dropped in silence."""

import copy
import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.evals.runs.output_item_list_response import OutputItemListResponse
from openai.types.responses import ResponseOutputItem
from pydantic import TypeAdapter

from harness.cli.app import app
from harness.core.errors import NothingRankable, UsageError
from harness.formats.foreign import SHAPES
from harness.formats.imported import ImportedRun
from harness.formats.trajectory_files import read_trajectories
from tests.formats.foreign_samples import BAD, EVALS_ITEM, GENAI, GOOD, INFERENCE, RESPONSE, SAMPLES, TRACE, USER, spans
from tests.formats.test_trajectory_files import ATIF, CHAT


def read(folder: Path, documents: list[Any], **more: Any) -> Any:
    path = folder / "t.jsonl"
    path.write_text("\n".join(json.dumps(document) for document in documents))
    return list(read_trajectories([path], **more))


@pytest.mark.parametrize("name", SAMPLES)
def test_each_format_is_recognised_with_its_answers_rewards_and_groups(name: str, tmp_path: Path):
    form, documents, answers, rewards, queries = SAMPLES[name]
    made = read(tmp_path, documents)
    assert [each.format for each in made] == [form] * len(answers)
    assert [each.query for each in made] == [USER["content"] if form != "alpaca" else "Why is the sky\nblue?"] * len(
        answers
    )
    assert [each.answer for each in made] == answers
    assert [each.reward for each in made] == rewards
    assert [each.query_id for each in made] == queries
    assert all(each.failure for each in made if not each.answer)
    assert all((each.turns[-1].completion[-1].get("content") or "") == each.answer for each in made)
    calls = [step for each in made for step in each.path if step.tool_name]
    assert all((step.tool_name, step.tool_output) == ("look", "Short waves scatter.") for step in calls)
    assert [e.answer for e in read(tmp_path, documents, format=form)] == answers


def test_every_format_has_a_sample_and_most_have_a_tool_call(tmp_path: Path):
    assert {form for form, *_ in SAMPLES.values()} == set(SHAPES)
    named = {form for form, documents, *_ in SAMPLES.values() if any(e.tool_names for e in read(tmp_path, documents))}
    assert named >= {"verifiers", "nemo-gym", "sharegpt", "inspect", "responses", "otlp"}


def places(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from places(inner)


ART = {
    "trajectories": [
        {"messages_and_choices": [USER, {"finish_reason": "stop", "index": 0, "message": said}], "reward": reward}
        for said, reward in ((GOOD, 1.0), (BAD, 0.0))
    ]
}
PAIR = {"prompt": [USER], "chosen": [GOOD], "rejected": [BAD]}
OURS = {"messages": [CHAT], "atif": [ATIF], "dpo": [PAIR], "art": [ART]}


@pytest.mark.parametrize("name", [*SAMPLES, *OURS])
def test_what_is_planted_anywhere_in_a_file_is_kept_or_named(name: str, tmp_path: Path):
    documents = OURS[name] if name in OURS else SAMPLES[name][1]
    silent: list[int] = []
    for at in range(len(list(places(documents)))):
        planted = copy.deepcopy(documents)
        list(places(planted))[at]["planted"] = "a mark"
        try:
            made = read(tmp_path, planted)
        except UsageError:
            continue
        kept = any("planted" in each.model_dump_json() or "planted" in repr(each.turns) for each in made)
        silent += [] if kept else [at]
    assert not silent, [list(places(documents))[at] for at in silent]


STRANGE: list[Any] = [None, True, -1, 1e300, "", "inf", "\ud800", "[", [], {}, [[]], [3], {"": ""}, [{"x": []}]]


@pytest.mark.parametrize("name", SAMPLES)
@given(at=st.randoms(use_true_random=False))
def test_a_strange_value_anywhere_is_read_or_refused_with_its_place(name: str, at: random.Random):
    documents = copy.deepcopy(SAMPLES[name][1])
    place = at.choice([each for each in places(documents) if each])
    place[at.choice(list(place))] = copy.deepcopy(at.choice(STRANGE))
    made, refused = [], f"{name}: t.jsonl"
    with TemporaryDirectory() as folder:
        try:
            made = read(Path(folder), documents)
        except UsageError as exc:
            refused = str(exc)
    importing = ImportedRun("r", datetime(2026, 1, 1, tzinfo=UTC), keep=str)
    assert all((importing.query(each), importing.rollout(each)) for each in made)
    assert all(each.reward is None or abs(each.reward) <= 1e6 for each in made)
    assert "t.jsonl" in refused


REFUSED = [
    ({"prompt": "x", "completion": "y", "label": "good"}, "`label` must be true or false"),
    ({"prompt": [USER]}, "lacks a completion"),
    ({"text": "x"}, "lacks roles"),
    ({"input_ids": [1]}, "lack the messages"),
    ({"prompt": "x", "completions": ["a"], "labels": [True]}, "stepwise"),
    (RESPONSE, "lacks its input"),
    ({"output": RESPONSE["output"], "input": []}, "lacks the input"),
    ({"object": "chat.completion", "choices": []}, "lacks its request"),
    ({"custom_id": "1", "response": {}}, "`custom_id`"),
    ({"responses_create_params": {"input": "x"}}, "lacks the response"),
    ({"status": "success", "eval": {}, "samples": []}, "lacks samples"),
    ({"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "x"}]}]}]}, "lack the messages"),
    ({"conversations": [{"from": "robot", "value": "x"}]}, "`from` is 'robot'"),
    ({"conversations": [], "chosen": {}, "rejected": {}}, "lack messages"),
    ({"run_id": "r", "event_id": 1, "type": "match", "sample_id": "s"}, "lacks an event of the type 'sampling'"),
    (TRACE | {"nodes": [{"parent": 5, "message": USER}]}, "no node before it"),
    ({"strange": 1}, r"no format that is read here has such keys \('strange'\)"),
]


@pytest.mark.parametrize(("document", "why"), REFUSED)
def test_what_cannot_be_read_is_named_with_what_it_lacks(document: Any, why: str, tmp_path: Path):
    with pytest.raises(UsageError, match=rf"t\.jsonl.*{why}"):
        read(tmp_path, [document])


def test_a_trace_keeps_the_tokens_that_were_sampled_and_its_longest_branch(tmp_path: Path):
    branch = {"parent": 0, "message": GOOD, "sampled": True}
    (made,) = read(tmp_path, [TRACE | {"nodes": [*TRACE["nodes"], branch]}])
    first, last = made.turns
    assert (first.tokens.prompt_ids, first.tokens.ids) == ((1, 2, 3), (4,))
    assert (last.tokens.prompt_ids, last.tokens.ids, last.tokens.logprobs) == ((1, 2, 3, 4, 5, 6), (7, 8), (-0.5, -0.5))
    assert made.unplaced == ("1 message of other branches",)


def test_rejected_answers_of_a_kto_file_are_no_examples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    Path("kto.jsonl").write_text("\n".join(map(json.dumps, SAMPLES["kto"][1])))
    app.main(["import", "kto.jsonl", "--json"], standalone_mode=False, obj={})
    made = json.loads(capsys.readouterr().out)
    assert [(group["rollouts"], group["ranked"]) for group in made["groups"]] == [(2, "not at all")]
    with pytest.raises(NothingRankable):
        app.main(["export", made["path"], "--format", "sft", "-o", "out"], standalone_mode=False, obj={})
    with pytest.raises(UsageError, match="`label` ranks it"):
        read(tmp_path, SAMPLES["kto"][1], format="sft")


def test_samples_of_openais_evals_and_responses_are_what_its_client_reads():
    item = EVALS_ITEM | {"created_at": 1, "eval_id": "e", "run_id": "r", "status": "pass"}
    assert OutputItemListResponse.model_validate(item).sample.output[0].content == GOOD["content"]
    output = TypeAdapter(list[ResponseOutputItem]).validate_python(
        [each for each in RESPONSE["output"] if each["type"] != "function_call_output"]
    )
    assert [each.type for each in output] == ["reasoning", "function_call", "message"]


def test_a_packed_log_of_inspect_is_refused_by_name_where_its_package_is_not(tmp_path: Path):
    (tmp_path / "log.eval").write_bytes(b"PK")
    with pytest.raises(UsageError, match=r"log\.eval: .*inspect"):
        list(read_trajectories([tmp_path / "log.eval"]))


def test_a_trace_is_its_last_model_call_and_other_spans_are_named(tmp_path: Path):
    tool = spans({"name": "execute_tool look", "attributes": []})
    earlier = spans({"startTimeUnixNano": "-1", "attributes": INFERENCE})
    (made,) = read(tmp_path, [earlier, tool, spans({"attributes": GENAI})])
    assert made.instructions == "Be brief."
    assert "a span that is no model call" in made.unplaced
