"""Trainers' prompts, completions and histories as chat messages in which each tool's result names its call."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_SYSTEM = {"system", "developer"}
_Message = Mapping[str, Any]
Chat = list[_Message]


def chat_of(prompt: str | Sequence[_Message], completion: str | Sequence[_Message]) -> Chat:
    """Return a prompt and its completion, each a text or messages, as one conversation."""
    asked = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    answered = [{"role": "assistant", "content": completion}] if isinstance(completion, str) else completion
    return list(_with_ids([*asked, *answered]))


def chat_of_histories(histories: Sequence[Sequence[_Message]]) -> Chat:
    """Return the conversations of one rollout as one, for a judge: the first asks, and gives the answer if it ends so.

    Where the first ends without an answer, as before a handoff or when a context was compacted, the last one answers.
    System messages of further conversations are left out: they are not what the user was promised.
    """
    first, *further = [list(_with_ids(history, f"{number}.")) for number, history in enumerate(histories)]
    others = [message for history in further for message in history if message.get("role") not in _SYSTEM]
    asked = next((at for at, message in enumerate(first, 1) if message.get("role") == "user"), len(first))
    return [*first[:asked], *others, *first[asked:]] if _answers(first) else [*first, *others]


def _answers(history: Sequence[_Message]) -> bool:
    return bool(history) and history[-1].get("role") == "assistant" and not history[-1].get("tool_calls")


def _with_ids(messages: Sequence[_Message], prefix: str = "") -> Iterator[_Message]:
    """Give every call an id of its own, and its result the same: some trainers have none, and go by the order."""
    waiting: list[tuple[Any, str]] = []
    for number, message in enumerate(messages):
        if calls := message.get("tool_calls"):
            waiting = [(call.get("id"), f"{prefix}{number}.{at}") for at, call in enumerate(calls)]
            named = [{**call, "id": name} for call, (_, name) in zip(calls, waiting, strict=True)]
            yield {**message, "tool_calls": named}
        elif message.get("role") == "tool" and waiting:
            asked = message.get("tool_call_id")
            place = next((at for at, (was, _) in enumerate(waiting) if was == asked), 0)
            yield {**message, "tool_call_id": waiting.pop(place)[1]}
        else:
            yield message
