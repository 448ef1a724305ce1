"""A line of each format, from candidates, with the rollouts behind it and what of them it has no place for."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from harness.formats.json_values import parse_json
from harness.formats.sequences import NO_TOKENS, TokenCounts, TurnSequence, token_fields
from harness.formats.training.candidates import (
    Candidate,
    LeftOut,
    Losses,
    RankedGroup,
    RankedPair,
    preference_pairs,
    rewards_teach,
)
from harness.formats.training.line_models import (
    GroupLine,
    OpenAIExample,
    OpenAIPreference,
    Part,
    TrlChat,
    TrlCompletion,
    TrlPreference,
    faults,
)
from harness.formats.training.rules import ExportRules
from harness.formats.turns import Message, Turn
from harness.ranking.rewards import advantages

_OPENAI_KEYS = {"role", "content", "tool_calls", "tool_call_id", "name", "refusal"}
"""What a message of OpenAI's fine-tuning files may hold."""


def trl_messages(messages: Iterable[Message]) -> list[Message]:
    """Return messages as TRL and chat templates take them, arguments as objects. Raises LeftOut."""
    return [_with_arguments(message, _as_object) for message in messages]


def openai_messages(messages: Iterable[Message]) -> list[Message]:
    """Return messages as OpenAI's files take them: system for developer, no reasoning."""
    return [_for_openai(message) for message in messages]


def lost_for_openai(messages: Iterable[Message]) -> tuple[str, ...]:
    """Return what OpenAI's files have no place for, each thing by its name."""
    return tuple(key for message in messages for key in message if key not in _OPENAI_KEYS)


def with_plain_ids(messages: Sequence[Message]) -> list[Message]:
    """Return messages whose tool calls are numbered as they come: two rollouts' ids always differ."""
    numbers: dict[str, str] = {}

    def number(call_id: Any) -> str:
        return numbers.setdefault(str(call_id), f"call_{len(numbers)}")

    return [_renumbered(message, number) for message in messages]


def _renumbered(message: Message, number: Callable[[Any], str]) -> Message:
    if calls := message.get("tool_calls"):
        message = message | {"tool_calls": [call | {"id": number(call.get("id"))} for call in calls]}
    if "tool_call_id" in message:
        message = message | {"tool_call_id": number(message["tool_call_id"])}
    return message


def _with_arguments(message: Message, change: Callable[[Any], Any]) -> Message:
    if not (calls := message.get("tool_calls")):
        return message
    if not all("function" in call for call in calls):
        raise LeftOut("a call of a tool that is no function")
    changed = [
        call | {"function": call["function"] | {"arguments": change(call["function"]["arguments"])}} for call in calls
    ]
    return message | {"tool_calls": changed}


def _as_object(arguments: Any) -> dict[str, Any]:
    try:
        value: Any = parse_json(arguments)
    except (TypeError, ValueError):
        value = None
    if not isinstance(value, dict):
        raise LeftOut("the arguments of a tool call are no JSON object")
    return value  # pyright: ignore[reportUnknownVariableType] - of JSON


def _for_openai(message: Message) -> Message:
    kept = {key: value for key, value in message.items() if key in _OPENAI_KEYS}
    if kept["role"] == "developer":
        kept["role"] = "system"
    if kept.get("content") is None and not kept.get("tool_calls") and not kept.get("refusal"):
        kept["content"] = ""
    return kept


@dataclass(frozen=True)
class TrainingLine:
    """A record, the indices of the rollouts behind it, and what it has no place for, each thing by its name."""

    record: Mapping[str, Any]
    rollouts: tuple[int, ...]
    lost: tuple[str, ...] = ()
    tools_in_reply: bool = False
    """Whether a preference holds results of tools, which DPO trains as if the model had said them."""
    tokens: TokenCounts = NO_TOKENS


LinesOf = Callable[[RankedGroup, Sequence[Candidate], ExportRules, Losses], Iterator[TrainingLine]]
"""Makes the lines of a group from the candidates, best first; what is left out is counted."""


def group_records(
    group: RankedGroup, choices: Sequence[Candidate], rules: ExportRules, losses: Losses
) -> Iterator[TrainingLine]:
    """Yield a group as one line, its advantages standardized over who is left."""
    gained = [candidate.place.reward or 0.0 for candidate in choices]
    if rewards_teach(choices, rules, losses):
        standardized = advantages([Fraction(reward) for reward in gained])
        members = sorted(zip(choices, gained, standardized, strict=True), key=lambda member: member[0].index)
        record = {
            "query_id": group.group.query.exported_id,
            "signal": group.ranked.signal,
            "judge": group.judge,
            "rollouts": [_member(*member) for member in members],
        }
        if not _attempted(lambda: _checked(record, GroupLine, "the format"), losses):
            return
        sequences = [sequence for candidate in choices for sequence in candidate.sequences]
        lost = tuple(name for sequence in sequences for name in sequence.lost)
        indices = tuple(candidate.index for candidate, _, _ in members)
        yield TrainingLine(record, indices, lost, tokens=TokenCounts.of(sequences))


def _member(candidate: Candidate, reward: float, advantage: float) -> dict[str, Any]:
    return {
        "index": candidate.index,
        "role": candidate.rollout.role,
        "reward": reward,
        "advantage": advantage,
        "uncertainty": candidate.place.uncertainty,
        **({"failed": failure.kind} if (failure := candidate.rollout.failure) else {}),
        "sequences": [
            {
                "agent": s.agent,
                "model": s.model,
                "messages": list(s.messages),
                "tools": list(s.tools),
                "message_mask": list(s.message_mask),
                **token_fields(s),
                **_unusual(s.turns[-1]),
            }
            for s in candidate.sequences
        ],
    }


def _unusual(turn: Turn) -> dict[str, Any]:
    """Return what most sequences do not have: a call of a tool that a nested agent answers, a schema of the answer."""
    within = {"within": turn.within} if turn.within else {}
    return within | ({"output_schema": dict(turn.output_schema)} if turn.output_schema else {})


def sft_records(
    _: RankedGroup, choices: Sequence[Candidate], rules: ExportRules, losses: Losses
) -> Iterator[TrainingLine]:
    """Yield a line for each sequence of the best rollout, or for each of its turns."""
    for best in choices[:1]:
        for sequence in best.sequences:
            for part in _parts(sequence, rules):
                if record := _attempted(lambda part=part: _SFT[rules.style](part), losses):
                    lost = (*lost_of(part), *(lost_for_openai(part.messages) if rules.style == "openai" else ()))
                    yield TrainingLine(record, (best.index,), lost)


def _parts(sequence: TurnSequence, rules: ExportRules) -> list[TurnSequence]:
    if rules.style == "trl-turns":
        return [TurnSequence((turn,)) for turn in sequence.turns]
    return [sequence]


def _trl_example(sequence: TurnSequence) -> dict[str, Any]:
    if not sequence.is_whole:
        raise LeftOut(
            "a message of the assistant that was not said there, or lost its reasoning (--style trl-turns or openai "
            "mask it)"
        )
    record = {"messages": trl_messages(sequence.messages), **_tools(sequence.turns[-1])}
    return _checked(record, TrlChat, "TRL")


def _trl_turn(sequence: TurnSequence) -> dict[str, Any]:
    turn = sequence.turns[-1]
    messages = trl_messages(turn.messages)
    at = len(turn.context)
    record = {"prompt": messages[:at], "completion": messages[at:], **_tools(turn)}
    return _checked(record, TrlCompletion, "TRL")


def _openai_example(sequence: TurnSequence) -> dict[str, Any]:
    masked = zip(openai_messages(sequence.messages), sequence.message_mask, strict=True)
    messages = [m | {"weight": mask} if m["role"] == "assistant" else m for m, mask in masked]
    record = {"messages": messages, **_tools(sequence.turns[-1])}
    return _checked(record, OpenAIExample, "OpenAI")


_SFT: Mapping[str, Callable[[TurnSequence], dict[str, Any]]] = {
    "trl": _trl_example,
    "trl-turns": _trl_turn,
    "openai": _openai_example,
}


def dpo_records(
    group: RankedGroup, choices: Sequence[Candidate], rules: ExportRules, losses: Losses
) -> Iterator[TrainingLine]:
    """Yield a line for each pair whose prompts and tools are the same."""
    for pair in preference_pairs(group, choices, rules, losses):
        if record := _attempted(lambda pair=pair: _dpo(pair, rules), losses):
            yield _line_of_pair(record, pair)


def openai_preference_records(
    group: RankedGroup, choices: Sequence[Candidate], rules: ExportRules, losses: Losses
) -> Iterator[TrainingLine]:
    """Yield a line for each pair whose final turns were shown the same and said one message each."""
    for pair in preference_pairs(group, choices, rules, losses):
        if record := _attempted(lambda pair=pair: _openai_preference(pair), losses):
            turns = [candidate.final.turns[-1] for candidate in pair]
            yield _line_of_pair(record, pair, lost_for_openai(m for turn in turns for m in turn.messages))


def _line_of_pair(record: dict[str, Any], pair: RankedPair, lost: tuple[str, ...] = ()) -> TrainingLine:
    beside = ("a sequence beside the final one",) * sum(len(candidate.sequences) - 1 for candidate in pair)
    unplaced = tuple(name for candidate in pair for name in lost_of(candidate.final))
    replies = [*record.get("chosen", ()), *record.get("rejected", ())]
    tools = any(message["role"] == "tool" for message in replies)
    return TrainingLine(record, tuple(candidate.index for candidate in pair), (*unplaced, *beside, *lost), tools)


def _dpo(pair: RankedPair, rules: ExportRules) -> dict[str, Any]:
    sides = [_TalkSide.of(candidate.final, final_answer=rules.final_answer) for candidate in pair]
    prompt, chosen, rejected = _compared(*sides)
    talk = trl_messages((*prompt, *chosen))
    record = {"prompt": talk[: len(prompt)], "chosen": talk[len(prompt) :], "rejected": trl_messages(rejected)}
    record |= _tools(pair[0].final.turns[-1])
    return _checked(record, TrlPreference, "TRL")


def _openai_preference(pair: RankedPair) -> dict[str, Any]:
    prompt, chosen, rejected = _compared(*(_TalkSide.of(c.final, final_answer=True) for c in pair))
    record = {
        "input": {"messages": openai_messages(prompt), **_tools(pair[0].final.turns[-1])},
        "preferred_output": openai_messages(chosen),
        "non_preferred_output": openai_messages(rejected),
    }
    return _checked(record, OpenAIPreference, "OpenAI")


@dataclass(frozen=True)
class _TalkSide:
    """One side of a pair: what was there before, and what came of it."""

    prompt: tuple[Message, ...]
    reply: tuple[Message, ...]
    turn: Turn
    foreign: bool
    """Whether an assistant's message in the reply was not said there."""

    @classmethod
    def of(cls, sequence: TurnSequence, *, final_answer: bool) -> "_TalkSide":
        turn = sequence.turns[-1]
        at = len(turn.context if final_answer else sequence.prompt)
        masked = zip(sequence.messages[at:], sequence.message_mask[at:], strict=True)
        foreign = any(message["role"] == "assistant" and not mask for message, mask in masked)
        return cls(sequence.messages[:at], sequence.messages[at:], turn, foreign)


def _compared(better: _TalkSide, worse: _TalkSide) -> tuple[Sequence[Message], Sequence[Message], Sequence[Message]]:
    """Return the prompt that two sides share, and both replies. Raises LeftOut where they share none."""
    plain = [with_plain_ids((*side.prompt, *side.reply)) for side in (better, worse)]
    if plain[0][: len(better.prompt)] != plain[1][: len(worse.prompt)]:
        before = "another agent, or another tool exchange, came before"
        raise LeftOut(f"the two were shown different prompts ({before}); groups and sft take such rollouts")
    if better.turn.tools != worse.turn.tools:
        raise LeftOut("the two were offered different tools")
    if better.foreign or worse.foreign:
        raise LeftOut("a message of the assistant that was not said there")
    chosen, rejected = (talk[len(better.prompt) :] for talk in plain)
    if chosen == rejected:
        raise LeftOut("both said the same")
    return plain[0][: len(better.prompt)], chosen, rejected


def _tools(turn: Turn) -> dict[str, Any]:
    return {"tools": list(turn.tools)} if turn.tools else {}


def lost_of(sequence: TurnSequence) -> tuple[str, ...]:
    """Return what no format of messages has a place for, each thing by its name."""
    schema = ("an output schema",) if sequence.turns[-1].output_schema else ()
    return (*sequence.lost, *schema)


def _checked(record: dict[str, Any], model: type[Part], consumer: str) -> dict[str, Any]:
    if fault := next(faults(record, model), None):
        raise LeftOut(f"against {consumer}'s rules: {fault}")
    return record


def _attempted(make: Callable[[], dict[str, Any]], losses: Losses) -> dict[str, Any] | None:
    """Return a record, or count why there is none."""
    try:
        return make()
    except LeftOut as exc:
        losses.add("line", str(exc))
        return None
