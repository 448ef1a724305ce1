"""A supervised example read back: `messages`, or TRL's `prompt` and `completion`, of the best rollout of a query."""

from collections.abc import Iterator

from harness.formats.chat_turns import Conversation, offered_tools, turns_after, turns_of_chat, unplaced_in_chat
from harness.formats.imported_trajectory import ImportedTrajectory
from harness.formats.json_values import JsonObject, objects_in
from harness.formats.messages import checked_messages
from harness.formats.training_lines.origins import LineOrigin
from harness.formats.training_lines.talk import read_of

_KEYS = {"prompt", "completion", "tools"}


def is_completion(document: JsonObject) -> bool:
    """Return whether an object is a prompt with its completion."""
    return {"prompt", "completion"} <= document.keys()


def read_example(document: JsonObject, origin: LineOrigin) -> Iterator[ImportedTrajectory]:
    """Yield the one rollout of an example. Raises ValueError."""
    if is_completion(document):
        prompt, completion = objects_in(document, "prompt"), objects_in(document, "completion")
        tools, hosted = offered_tools(document)
        turns = turns_after(prompt, completion, Conversation(tools=tools, hosted=hosted))
        unplaced = tuple(f"the key {key!r}" for key in document if key not in _KEYS)
    else:
        checked_messages(document.get("messages"))
        turns, unplaced = turns_of_chat(document), unplaced_in_chat(document)
    if not turns:
        raise ValueError("no message is one that the assistant said there")
    source = origin.line
    yield ImportedTrajectory(
        format=origin.format,
        query_id=source.query if source else None,
        index=source.rollouts[0] if source and source.rollouts else None,
        line=origin,
        unplaced=unplaced,
        **read_of(turns),
    )
