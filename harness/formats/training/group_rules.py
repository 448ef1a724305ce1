"""What a line of `groups` holds: rollouts with rewards, and sequences whose masks and logprobs fit."""

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from harness.core.rankings import Signal
from harness.core.records import FailureKind, Role
from harness.core.wording import counted
from harness.formats.training.checks import faults_of_tools, fields_of, is_number, list_of, other_keys
from harness.formats.training.talk_rules import faults_of_talk

GROUP_KEYS = {"query_id", "signal", "judge", "rollouts"}
ROLLOUT_KEYS = {"index", "role", "reward", "advantage", "uncertainty", "failed", "sequences"}
SEQUENCE_KEYS = {
    *("agent", "model", "messages", "tools", "message_mask", "within", "output_schema"),
    *("token_ids", "token_mask", "logprobs"),
}


def faults_of_group(record: Any) -> Iterator[str]:
    """Yield what is wrong with a group."""
    fields = fields_of(record)
    yield from other_keys(fields, GROUP_KEYS, "the line")
    if not isinstance(fields.get("query_id"), str):
        yield "query_id is no text"
    if fields.get("signal") not in get_args(Signal):
        yield f"signal is {fields.get('signal')!r}"
    rollouts = [fields_of(rollout) for rollout in list_of(fields.get("rollouts"))]
    if len(rollouts) < 2:
        yield "a group needs two rollouts"
    if len({str(rollout.get("index")) for rollout in rollouts}) < len(rollouts):
        yield "two rollouts have the same index"
    for place, rollout in enumerate(rollouts):
        yield from _rollout(rollout, f"rollouts[{place}]")


def _rollout(rollout: Mapping[str, Any], where: str) -> Iterator[str]:
    yield from other_keys(rollout, ROLLOUT_KEYS, where)
    index = rollout.get("index")
    if type(index) is not int or index < 0:
        yield f"{where}: index is no whole number from 0"
    if rollout.get("role") not in get_args(Role):
        yield f"{where}: role is {rollout.get('role')!r}"
    if "failed" in rollout and rollout["failed"] not in get_args(FailureKind):
        yield f"{where}: failed is {rollout['failed']!r}"
    yield from (f"{where}: {name} is no number" for name in ("reward", "advantage") if not is_number(rollout.get(name)))
    if rollout.get("uncertainty") is not None and not is_number(rollout["uncertainty"]):
        yield f"{where}: uncertainty is no number"
    sequences = list_of(rollout.get("sequences"))
    if not sequences:
        yield f"{where} holds no sequence"
    for place, sequence in enumerate(map(fields_of, sequences)):
        yield from _sequence(sequence, f"{where}.sequences[{place}]")


def _sequence(sequence: Mapping[str, Any], where: str) -> Iterator[str]:
    yield from other_keys(sequence, SEQUENCE_KEYS, where)
    yield from faults_of_talk(sequence.get("messages"), f"{where}.messages", str)
    yield from (f"{where}: {fault}" for fault in faults_of_tools(sequence))
    messages, mask = list_of(sequence.get("messages")), list_of(sequence.get("message_mask"))
    yield from _mask(mask, len(messages), f"{where}.message_mask", "messages")
    masked = zip(messages, mask, strict=False)
    if any(said == 1 and fields_of(message).get("role") != "assistant" for message, said in masked):
        yield f"{where}.message_mask marks a message that is not the assistant's"
    if sequence.keys() & {"token_ids", "token_mask", "logprobs"}:
        yield from _tokens(sequence, where)


def _mask(mask: list[Any], length: int, name: str, of: str) -> Iterator[str]:
    if len(mask) != length or any(type(mark) is not int or mark not in {0, 1} for mark in mask):
        yield f"{name} is no list of {length} numbers 0 or 1, one for each of the {of}"
    elif 1 not in mask:
        yield f"{name} marks none of the {of}"


def _tokens(sequence: Mapping[str, Any], where: str) -> Iterator[str]:
    ids, mask = list_of(sequence.get("token_ids")), list_of(sequence.get("token_mask"))
    if not ids or any(type(token) is not int or token < 0 for token in ids):
        yield f"{where}.token_ids is no list of whole numbers"
    yield from _mask(mask, len(ids), f"{where}.token_mask", "token ids")
    if "logprobs" in sequence:
        yield from _logprobs(list_of(sequence["logprobs"]), mask, f"{where}.logprobs")


def _logprobs(logprobs: list[Any], mask: list[Any], name: str) -> Iterator[str]:
    if len(logprobs) != len(mask):
        yield f"{name} has {counted(len(logprobs), 'entry', 'entries')}, token_mask {len(mask)}"
    elif not all(is_number(logprob) if said else logprob is None for logprob, said in zip(logprobs, mask, strict=True)):
        yield f"{name} is not a number where the mask is 1, and null where the mask is 0"
