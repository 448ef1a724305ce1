"""Turns with tokens join by their tokens, and a sequence's flat ids say which of them the model sampled."""

from dataclasses import replace

import pytest

from harness.core.sampled_tokens import SampledTokens
from harness.formats.turns import Message, TokenCounts, Turn, join_turns, step_fields, token_fields

USER: Message = {"role": "user", "content": "Why?"}
CALL: Message = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "f"}}]}
RESULT: Message = {"role": "tool", "tool_call_id": "c", "content": "r"}
ANSWER: Message = {"role": "assistant", "content": "Because."}


def tokens(prompt: list[int], ids: list[int], *, logprobs: bool = True) -> SampledTokens:
    return SampledTokens(tuple(prompt), tuple(ids), tuple(-0.5 * i for i in ids) if logprobs else None)


def turns(first: SampledTokens | None, second: SampledTokens | None, *, thought: str | None = None) -> list[Turn]:
    call = CALL | ({"reasoning_content": thought} if thought else {})
    return [
        Turn("a", "m", (USER,), (call,), tokens=first),
        Turn("a", "m", (USER, CALL, RESULT), (ANSWER,), tokens=second),
    ]


def test_a_reply_that_goes_on_exactly_joins_and_the_tool_result_between_is_masked():
    (sequence,) = join_turns(turns(tokens([1, 2], [3]), tokens([1, 2, 3, 8, 9], [4, 5])), by_tokens=True)
    assert token_fields(sequence) == {
        "token_ids": (1, 2, 3, 8, 9, 4, 5),
        "token_mask": [0, 0, 1, 0, 0, 1, 1],
        "logprobs": [None, None, -1.5, None, None, -2.0, -2.5],
    }
    assert (sequence.is_exact, sequence.retokenized, sequence.message_mask) == (True, False, (0, 1, 0, 1))


def test_what_a_turn_was_worth_stands_at_its_message_and_its_tokens():
    both = turns(tokens([1, 2], [3]), tokens([1, 2, 3, 8, 9], [4, 5]))
    (sequence,) = join_turns([replace(turn, call=2 - at) for at, turn in enumerate(both)], by_tokens=True)
    assert step_fields(sequence, [9.0, -0.5, 1.5]) == {
        "step_advantages": [0, 1.5, 0, -0.5],
        "token_advantages": [0, 0, 1.5, 0, 0, -0.5, -0.5],
    }
    assert step_fields(join_turns([Turn("a", "m", (USER,), (ANSWER,))])[0], []) == {"step_advantages": [0, 0]}


@pytest.mark.parametrize("prompt", [[1, 2, 7, 8, 9], [1, 2], [9, 2, 3, 8]])
def test_other_tokens_for_the_same_messages_begin_a_sequence_that_the_card_counts(prompt: list[int]):
    both = turns(tokens([1, 2], [3]), tokens(prompt, [4]))
    first, second = join_turns(both, by_tokens=True)
    assert (first.retokenized, second.retokenized) == (False, True)
    assert token_fields(second) == {
        "token_ids": (*prompt, 4),
        "token_mask": [0] * len(prompt) + [1],
        "logprobs": [None] * len(prompt) + [-2.0],
    }
    assert len(join_turns(both)) == 1  # formats of messages go by the messages
    assert "1 turn is a sequence of its own" in TokenCounts.of([first, second]).words()


def test_a_reply_whose_reasoning_only_the_server_kept_joins_by_its_tokens_and_keeps_the_reasoning():
    (sequence,) = join_turns(turns(tokens([1], [2]), tokens([1, 2, 8], [4]), thought="Hm."), by_tokens=True)
    assert sequence.messages[1]["reasoning_content"] == "Hm."
    assert len(join_turns(turns(None, None, thought="Hm."), by_tokens=True)) == 2


def test_a_turn_without_tokens_stands_apart_from_turns_with_them():
    sequences = join_turns(turns(tokens([1], [2]), None), by_tokens=True)
    assert [s.is_exact for s in sequences] == [True, False]
    assert [bool(token_fields(s)) for s in sequences] == [True, False]
    assert [s.is_exact for s in join_turns(turns(None, None), by_tokens=True)] == [False]


def test_logprobs_of_some_turns_alone_are_left_out():
    (sequence,) = join_turns(turns(tokens([1], [2], logprobs=False), tokens([1, 2, 8], [4])), by_tokens=True)
    assert token_fields(sequence) == {"token_ids": (1, 2, 8, 4), "token_mask": [0, 1, 0, 1]}
    assert TokenCounts.of([sequence]).words() == (
        "Tokens: exact, as the server sampled them, in 1 of 1 sequence; 0 of them have logprobs."
    )
