"""ART builds its TrajectoryGroups of the lines of `art`, and makes tokens of them to train on."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
from openai.types.chat.chat_completion import Choice

from harness.core.rankings import Ranked
from harness.core.sampled_tokens import SampledTokens
from harness.formats.training.candidates import Candidate, Losses
from harness.formats.training.registry import art_records
from harness.formats.training.rules import ExportRules
from harness.formats.turns import Turn, join_turns
from tests.builders import a_rollout
from tests.conftest import ROOT
from tests.consumers.conftest import Exported
from tests.consumers.test_datasets import loaded, plain
from tests.consumers.tiny_model import tiny_tokenizer
from tests.formats.test_training import ranked_group

pytest.importorskip("art")


def read_groups(path: Path) -> list[Any]:
    """Read a file by the example that docs/training.md names."""
    names: dict[str, Any] = {}
    exec((ROOT / "examples" / "trainers" / "read_art.py").read_text("utf-8"), names)
    return names["art_groups"](str(path))


def test_groups_have_trainable_choices_tools_and_further_histories(exported: Exported):
    path = exported("art", "tools") / "train.jsonl"
    groups = read_groups(path)
    assert [len(group) for group in groups] == [3] * 4
    for trajectory in groups[0]:
        histories = [trajectory, *trajectory.additional_histories]
        assert len(histories) == 3
        choices = [sum(isinstance(e, Choice) for e in history.messages_and_choices) for history in histories]
        assert choices == [1, 2, 1]  # the handoff's agent, whose answer it is; the first one; the nested one
        assert [len(history.tools or ()) for history in histories] == [0, 3, 0]
        assert trajectory.metadata["query_id"].startswith("q")
        assert 0 <= trajectory.reward <= 1
    first = groups[0].trajectories[0].additional_histories[0]
    assert len(first.messages_and_choices[2].message.tool_calls) == 3
    assert [m["role"] for m in first.messages()] == ["system", "user", "assistant", "tool", "tool", "tool", "assistant"]


def test_arts_own_reader_of_lines_takes_them(exported: Exported):
    text = (exported("art", "looker") / "train.jsonl").read_text("utf-8")
    groups = importlib.import_module("art.utils.trajectory_migration").deserialize_trajectory_groups(text)
    assert [len(group) for group in groups] == [3] * 4
    assert sum(isinstance(entry, Choice) for entry in groups[0].trajectories[0].messages_and_choices) == 2


def test_datasets_load_them(exported: Exported):
    folder = exported("art", "tools")
    lines = [json.loads(line) for line in (folder / "train.jsonl").read_text("utf-8").splitlines()]
    assert [plain(row) for row in loaded(folder)["train"]] == [plain(line, near=True) for line in lines]


def tokenize_groups(*args: Any, **more: Any) -> Any:
    return importlib.import_module("art.preprocessing.tokenize").tokenize_trajectory_groups(*args, **more)


def sampled(tokenizer: Any, context: tuple[Any, ...], said: Any, text: str) -> Turn:
    """Return a turn whose tokens are those of `text`, with logprobs -0.5, -0.25, -0.5..."""
    prompt = tokenizer.apply_chat_template(list(context), add_generation_prompt=True)["input_ids"]
    ids = tokenizer.encode(text, add_special_tokens=False)
    logprobs = tuple(-0.5 if place % 2 else -0.25 for place in range(len(ids)))
    return Turn("a", "m", context, (said,), tokens=SampledTokens(tuple(prompt), tuple(ids), logprobs))


def test_art_trains_on_the_tokens_that_were_sampled_and_on_no_others(tmp_path: Path):
    tokenizer = tiny_tokenizer()
    asked = {"role": "user", "content": "Why?"}
    function = {"name": "look_up", "arguments": '{"word": "a"}'}
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": function}]}
    result = {"role": "tool", "tool_call_id": "c", "content": "meaning"}
    choices: list[Candidate] = []
    sampled_turns: list[tuple[Turn, ...]] = []
    for index, answer in enumerate(("Number one.", "Number two.")):
        said = {"role": "assistant", "content": answer}
        called = '<tool_call>\n{"name":"look_up", "arguments":{"word":"a"}}\n</tool_call><|im_end|>'
        turns = (
            sampled(tokenizer, (asked,), call, called),
            sampled(tokenizer, (asked, call, result), said, f"{answer}<|im_end|>"),
        )
        sampled_turns.append(turns)
        place = Ranked(index=index, rank=float(index), reward=1.0 - index)
        choices.append(Candidate(a_rollout(index), place, join_turns(turns)))
    (line,) = art_records(ranked_group(), choices, ExportRules(format="art"), Losses())
    assert line.lost == ()
    path = tmp_path / "train.jsonl"
    path.write_text(json.dumps(line.record) + "\n")
    results = tokenize_groups(
        tokenizer,
        read_groups(path),
        allow_training_without_logprobs=False,
        scale_rewards=True,
        shuffle_group_trajectories=False,
    )
    for result, turns in zip(results, sampled_turns, strict=True):
        masked = zip(result.token_ids, result.logprobs, result.assistant_mask, strict=True)
        trained = [(token, logprob) for token, logprob, mask in masked if mask]
        told = [pair for t in turns if t.tokens for pair in zip(t.tokens.ids, t.tokens.logprobs or (), strict=True)]
        assert trained == told


def test_art_trains_nothing_of_choices_without_logprobs_and_the_card_says_so(exported: Exported):
    folder = exported("art", "looker")
    assert "ART trains no Choice without them" in (folder / "README.md").read_text("utf-8")
    groups = read_groups(folder / "train.jsonl")
    more = {"allow_training_without_logprobs": False, "scale_rewards": True}
    assert list(tokenize_groups(tiny_tokenizer(), groups, **more)) == []
