"""Trajectories as trainers hold them: plain chat messages, and what a judge reads of them."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Any, cast

from harness.core.errors import UsageError, on_a_line, quoted
from harness.formats.messages import checked_messages
from harness.transcripts.path_text import plain_text
from harness.transcripts.transcript import Transcript

ChatMessage = Mapping[str, Any]
ChatTrajectory = Sequence[ChatMessage] | Mapping[str, Any]
"""Chat messages; or an object with `messages` and, where there is one, a `reward`."""

_LINE_END = re.compile("[\x85\u2028\u2029]")
"""Ends of lines that JSON leaves as they are in a string."""


def parted_each(message_lists: Any) -> list[tuple[list[ChatMessage], float | None]]:
    """Return the messages and the reward of each trajectory. Raises UsageError for anything else."""
    if not isinstance(message_lists, list | tuple):
        raise UsageError(f"expected a list of trajectories, found a {type(message_lists).__name__}")
    return [_parted(trajectory, number) for number, trajectory in enumerate(cast("Sequence[Any]", message_lists))]


def _parted(trajectory: Any, number: int) -> tuple[list[ChatMessage], float | None]:
    """Return a trajectory's messages and the reward that came with it. Raises UsageError for anything else."""
    reward = None
    if isinstance(trajectory, Mapping):
        members = cast("Mapping[str, Any]", trajectory)
        trajectory, reward = members.get("messages"), members.get("reward")
    if not isinstance(trajectory, list | tuple):
        raise UsageError(f"trajectory {number} is no list of messages, nor an object with `messages`")
    messages = [_plain(m) for m in cast("Sequence[Any]", trajectory)]
    if not all(isinstance(m, Mapping) for m in messages):
        raise UsageError(f"trajectory {number} holds something that is no chat message")
    return messages, None if reward is None else _number(reward, number)


def _number(reward: Any, number: int) -> float:
    """Return a reward as a float, whatever library's number it is; text is none, though float() reads some."""
    with suppress(TypeError, ValueError, OverflowError):
        is_number = hasattr(reward, "__float__") and not type(reward).__name__.startswith("bool")  # NumPy has its own
        if is_number and math.isfinite(as_float := float(reward)):
            return as_float
    raise UsageError(f"trajectory {number} has a reward that is no number: {quoted(reward)}")


def _plain(message: Any) -> Any:
    """Take the client library's own message objects too."""
    return message.model_dump(exclude_none=True) if hasattr(message, "model_dump") else message


def check_comparable(chats: Sequence[Sequence[ChatMessage]]) -> None:
    """Raise UsageError for a trajectory without messages or an assistant's, an unfit role, and for another query.

    The query is the first message of the user's; where there is none, whatever was asked is taken to be the same.
    """
    asked = [_first_of_user(chat) for chat in chats]
    for number, (chat, query) in enumerate(zip(chats, asked, strict=True)):
        try:
            checked_messages([dict(message) for message in chat])
        except ValueError as exc:
            raise UsageError(f"trajectory {number}: {on_a_line(exc)}") from None
        if query.get("content") != asked[0].get("content"):
            raise UsageError(f"trajectory {number} is of another query than trajectory 0: {quoted(_text(query))}")


def _first_of_user(chat: Sequence[ChatMessage]) -> ChatMessage:
    nothing: ChatMessage = {}
    return next((message for message in chat if message.get("role") == "user"), nothing)


def common_beginning(chats: Sequence[Sequence[ChatMessage]]) -> int:
    """Return how many messages all begin with, each keeping one of its own; all the same: those before any reply."""
    if all(chat == chats[0] for chat in chats):
        return len(list(takewhile(lambda m: m.get("role") not in {"assistant", "tool"}, chats[0])))
    same = takewhile(lambda at: all(chat[at] == chats[0][at] for chat in chats), range(min(map(len, chats)) - 1))
    return len(list(same))


def transcript_of(messages: Sequence[ChatMessage]) -> Transcript:
    """Return the closing text as the answer, and what leads to it as the path, a JSON object a line."""
    answer = ""
    if messages and messages[-1].get("role") == "assistant" and not messages[-1].get("tool_calls"):
        answer = _text(messages[-1])
        messages = messages[:-1] if answer else messages
    return Transcript(path=plain_text(json_lines(messages)) or "(no steps)", answer=plain_text(answer))


def request_in(context: Sequence[ChatMessage]) -> str:
    """Return what was asked: the last words of the user's that all have in common."""
    return next((_text(m) for m in reversed(context) if m.get("role") == "user"), "")


def _text(message: ChatMessage) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = cast("Sequence[Any]", content) if isinstance(content, list | tuple) else ()
    texts = [str(cast("Mapping[str, Any]", p)["text"]) for p in parts if isinstance(p, Mapping) and "text" in p]
    return "\n".join(texts) if len(texts) == len(parts) else ""


def json_lines(objects: Sequence[Mapping[str, Any]]) -> str:
    """Return each object as JSON on a line of its own. Raises UsageError for what is no JSON."""
    try:
        return "\n".join(_line(json.dumps(dict(o), ensure_ascii=False)) for o in objects)
    except (TypeError, ValueError) as exc:
        raise UsageError(f"a message or tool is no JSON: {exc}") from None


def _line(text: str) -> str:
    """Return JSON on one line, whatever is in its strings: no text can pose as an object then."""
    return _LINE_END.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
