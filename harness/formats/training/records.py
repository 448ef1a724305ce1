"""A line of each format, from candidates, with the rollouts behind it and what of them it has no place for."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from harness.core.workspace_files import ChangedFile
from harness.formats.json_values import parse_json
from harness.formats.training import candidates, line_models
from harness.formats.training.line_models import Part, faults
from harness.formats.training.rules import PAIRS_OF_STEPS, ExportRules, SftStyle
from harness.formats.turns import NO_TOKENS, Message, TokenCounts, TurnSequence, step_fields, token_fields
from harness.ranking.rewards import advantages

_OPENAI_KEYS = {"role", "content", "tool_calls", "tool_call_id", "name", "refusal"}
"""What a message of OpenAI's fine-tuning files may hold."""


def trl_messages(messages: Iterable[Message]) -> list[Message]:
    """Return messages as TRL and chat templates take them, arguments as objects. Raises LeftOut."""
    made: list[Message] = []
    for message in messages:
        calls = message.get("tool_calls") or ()
        if not all("function" in call for call in calls):
            raise candidates.LeftOut("a call of a tool that is no function")
        changed = [
            call | {"function": call["function"] | {"arguments": _as_object(call["function"]["arguments"])}}
            for call in calls
        ]
        made.append(message | {"tool_calls": changed} if changed else message)
    return made


def _as_object(arguments: Any) -> dict[str, Any]:
    try:
        value: Any = parse_json(arguments)
    except (TypeError, ValueError):
        value = None
    if not isinstance(value, dict):
        raise candidates.LeftOut("the arguments of a tool call are no JSON object")
    return value  # pyright: ignore[reportUnknownVariableType] - of JSON


def openai_messages(messages: Iterable[Message]) -> list[Message]:
    """Return messages as OpenAI's files take them: system for developer, no reasoning."""
    made: list[Message] = []
    for message in messages:
        kept = {key: value for key, value in message.items() if key in _OPENAI_KEYS}
        if kept["role"] == "developer":
            kept["role"] = "system"
        if kept.get("content") is None and not kept.get("tool_calls") and not kept.get("refusal"):
            kept["content"] = ""
        made.append(kept)
    return made


def lost_for_openai(messages: Iterable[Message]) -> tuple[str, ...]:
    """Return what OpenAI's files have no place for, each thing by its name."""
    return tuple(key for message in messages for key in message if key not in _OPENAI_KEYS)


def with_plain_ids(messages: Sequence[Message]) -> list[Message]:
    """Return messages whose tool calls are numbered as they come: two rollouts' ids always differ."""
    numbers: dict[str, str] = {}

    def number(call_id: Any) -> str:
        return numbers.setdefault(str(call_id), f"call_{len(numbers)}")

    made: list[Message] = []
    for message in messages:
        plain = dict(message)
        if calls := message.get("tool_calls"):
            plain["tool_calls"] = [call | {"id": number(call.get("id"))} for call in calls]
        if "tool_call_id" in message:
            plain["tool_call_id"] = number(message["tool_call_id"])
        made.append(plain)
    return made


@dataclass(frozen=True)
class TrainingLine:
    """A record, the indices of the rollouts behind it, and what it has no place for, each thing by its name."""

    record: Mapping[str, Any]
    rollouts: tuple[int, ...]
    lost: tuple[str, ...] = ()
    tools_in_reply: bool = False
    """Whether a preference holds results of tools, which DPO trains as if the model had said them."""
    tokens: TokenCounts = NO_TOKENS


LinesOf = Callable[
    [candidates.RankedGroup, Sequence[candidates.Candidate], ExportRules, candidates.Losses], Iterator[TrainingLine]
]
"""Makes the lines of a group from the candidates, best first; what is left out is counted."""


def group_records(
    group: candidates.RankedGroup,
    choices: Sequence[candidates.Candidate],
    rules: ExportRules,
    losses: candidates.Losses,
) -> Iterator[TrainingLine]:
    """Yield a group as one line, its advantages standardized over who is left."""
    gained = [candidate.place.reward or 0.0 for candidate in choices]
    if candidates.rewards_teach(choices, rules, losses):
        standardized = advantages([Fraction(reward) for reward in gained])
        members = sorted(zip(choices, gained, standardized, strict=True), key=lambda member: member[0].index)
        record = {
            "query_id": group.group.query.exported_id,
            "signal": group.ranked.signal,
            "judge": group.judge,
            "rollouts": [_member(*member, group.step_advantages.get(member[0].index)) for member in members],
        }
        if not _attempted(lambda: _checked(record, line_models.GroupLine, "the format"), losses):
            return
        sequences = [sequence for candidate in choices for sequence in candidate.sequences]
        lost = tuple(name for sequence in sequences for name in sequence.lost)
        indices = tuple(candidate.index for candidate, _, _ in members)
        yield TrainingLine(record, indices, lost, tokens=TokenCounts.of(sequences))


def exported_files(files: Sequence[ChangedFile]) -> list[dict[str, Any]]:
    """Return what became of the files of a workspace, as a line has it: their diffs, without the whole files."""
    return [file.model_dump(mode="json", exclude={"blob"}, exclude_none=True) for file in files]


def _member(
    candidate: candidates.Candidate, reward: float, advantage: float, steps: Sequence[float] | None
) -> dict[str, Any]:
    sequences: list[dict[str, Any]] = []
    for s in candidate.sequences:
        sequence = {
            "agent": s.turns[0].agent,
            "model": s.turns[0].model,
            "messages": list(s.messages),
            "tools": list(s.tools),
            "message_mask": list(s.message_mask),
            **token_fields(s),
        }
        if steps:
            sequence |= step_fields(s, steps)
        if within := s.turns[-1].within:
            sequence["within"] = within
        if schema := s.turns[-1].output_schema:
            sequence["output_schema"] = dict(schema)
        sequences.append(sequence)
    return {
        "index": candidate.index,
        "role": candidate.rollout.role,
        **({"recipe": recipe.name} if (recipe := candidate.rollout.recipe) else {}),
        "reward": reward,
        "advantage": advantage,
        "uncertainty": candidate.place.uncertainty,
        **({"failed": failure.kind} if (failure := candidate.rollout.failure) else {}),
        **({"files": exported_files(files)} if (files := candidate.rollout.trajectory.files) else {}),
        "sequences": sequences,
    }


def sft_records(
    _: candidates.RankedGroup, choices: Sequence[candidates.Candidate], rules: ExportRules, losses: candidates.Losses
) -> Iterator[TrainingLine]:
    """Yield a line for each sequence of the best rollout, or for each of its turns.

    Raises NotWhole for a sequence that `trl` has no place for, if no style is named.
    """
    for best in choices[:1]:
        parts, written = best.sequences, list[TurnSequence]()
        if rules.style == "trl-turns":
            parts = [TurnSequence((turn,)) for sequence in parts for turn in sequence.turns]
        elif rules.style is None and any(part.has_foreign() for part in parts):
            raise NotWhole
        for part in parts:
            if record := _attempted(lambda part=part: _example(part, rules.style or "trl"), losses):
                written.append(part)
                lost = (*unplaced_parts(part), *(lost_for_openai(part.messages) if rules.style == "openai" else ()))
                yield TrainingLine(record, (best.index,), lost)
        if written and best.final.turns[-1] not in (part.turns[-1] for part in written):
            losses.add("rollout", "its answer is in no line, though other turns of it are")


class NotWhole(Exception):
    """A sequence holds a message of the assistant that was not said in it: only a line a turn has a place for it."""


def _example(sequence: TurnSequence, style: SftStyle) -> dict[str, Any]:
    if style == "openai":
        masked = zip(openai_messages(sequence.messages), sequence.message_mask, strict=True)
        messages = [m | {"weight": mask} if m["role"] == "assistant" else m for m, mask in masked]
        return _checked({"messages": messages, **tools_of(sequence)}, line_models.OpenAIExample, "OpenAI")
    if style == "trl" and sequence.has_foreign():
        raise candidates.LeftOut(
            "a message of the assistant that was not said there, or lost its reasoning (--style trl-turns or openai "
            "mask it)"
        )
    messages, at = trl_messages(sequence.messages), len(sequence.prompt)
    if style == "trl":
        return _checked({"messages": messages, **tools_of(sequence)}, line_models.TrlChat, "TRL")
    record = {"prompt": messages[:at], "completion": messages[at:], **tools_of(sequence)}
    return _checked(record, line_models.TrlCompletion, "TRL")


def preference_records(
    group: candidates.RankedGroup,
    choices: Sequence[candidates.Candidate],
    rules: ExportRules,
    losses: candidates.Losses,
) -> Iterator[TrainingLine]:
    """Yield a line for each pair of one prompt, else for each turn at which it parts; of steps, for each sure pair."""
    if rules.pairs in PAIRS_OF_STEPS:
        turns = {(c.index, turn.call): TurnSequence((turn,)) for c in choices for s in c.sequences for turn in s.turns}
        for steps in candidates.sibling_pairs(group, rules, losses):
            better, worse = turns.get(steps.better), turns.get(steps.worse)
            if better is None or worse is None:
                losses.add("pair", "a rollout of it is left out")
            elif line := _preference_line((better, worse), (steps.better[0], steps.worse[0]), rules, losses):
                yield line
        return
    for pair in candidates.preference_pairs(group, choices, rules, losses):
        compared, aside = _compared(pair, rules)
        for sides in compared:
            if line := _preference_line(sides, (pair[0].index, pair[1].index), rules, losses, aside):
                yield line
                aside = ()


def _preference_line(
    sides: "_Compared",
    rollouts: tuple[int, int],
    rules: ExportRules,
    losses: candidates.Losses,
    aside: Sequence[str] = (),
) -> TrainingLine | None:
    """Return the line of two sides, with what is left `aside` of their rollouts; None where it is left out."""
    if not (record := _attempted(lambda: _preference(*sides, rules), losses)):
        return None
    lost = [*(name for side in sides for name in unplaced_parts(side)), *aside]
    if rules.format == "openai-preference":
        lost += lost_for_openai(m for side in sides for m in side.messages)
    replies = [*record.get("chosen", ()), *record.get("rejected", ())]
    return TrainingLine(record, rollouts, tuple(lost), any(message["role"] == "tool" for message in replies))


_Compared = tuple[TurnSequence, TurnSequence]
"""Of two rollouts, what is better and what is worse."""


def _compared(pair: candidates.RankedPair, rules: ExportRules) -> tuple[Sequence[_Compared], Sequence[str]]:
    """Return what of two rollouts is compared, and what is not, each thing by its name.

    It is what ends in the answers, if one prompt led to both; and each other turn in which the two said something else
    after one prompt: the first that tells them apart, and more where reasoning was not sent back.
    """
    better, worse = (candidate.final for candidate in pair)
    if rules.final_answer or rules.format == "openai-preference":
        better, worse = (TurnSequence((final.turns[-1],)) for final in (better, worse))
    whole = _prompt(better) == _prompt(worse) and not any(s.has_foreign(len(s.prompt)) for s in (better, worse))
    compared: list[_Compared] = []
    if not rules.final_answer:
        first, second = ([TurnSequence((turn,)) for turn in candidate.outer_turns] for candidate in pair)
        after = {json.dumps(_prompt(turn)): turn for turn in reversed(second)}
        shared = [(turn, other) for turn in first if (other := after.get(json.dumps(_prompt(turn))))]
        in_finals = (*better.turns, *worse.turns) if whole else ()
        compared = [(a, b) for a, b in shared if _reply(a) != _reply(b) and a.turns[0] not in in_finals]
    if whole or not compared:
        compared.append((better, worse))
    turns = [turn for sides in compared for side in sides for turn in side.turns]
    beside = sum(not any(turn in turns for turn in s.turns) for candidate in pair for s in candidate.sequences)
    answers = sum(candidate.final.turns[-1] not in turns for candidate in pair)
    return compared, ["a sequence beside those compared"] * beside + ["an answer, in no turn compared"] * answers


def _prompt(sequence: TurnSequence) -> Sequence[Message]:
    return with_plain_ids(sequence.messages)[: len(sequence.prompt)]


def _reply(sequence: TurnSequence) -> Sequence[Message]:
    return with_plain_ids(sequence.messages)[len(sequence.prompt) :]


def _preference(better: TurnSequence, worse: TurnSequence, rules: ExportRules) -> dict[str, Any]:
    """Return the record of two sides. Raises LeftOut where they share no prompt, or say the same."""
    prompt, chosen, rejected = _prompt(better), _reply(better), _reply(worse)
    if prompt != _prompt(worse):
        before = "another agent, or another tool exchange, came before"
        take = "groups and sft take such rollouts"
        if rules.final_answer:
            take = f"dpo without --final-answer takes them from the turn where they part; {take}"
        raise candidates.LeftOut(f"the two were shown different prompts ({before}); {take}")
    if better.tools != worse.tools:
        raise candidates.LeftOut("the two were offered different tools")
    if any(side.has_foreign(len(prompt)) for side in (better, worse)):
        raise candidates.LeftOut("a message of the assistant that was not said there")
    for_openai = rules.format == "openai-preference"
    if for_openai:
        chosen, rejected = openai_messages(chosen), openai_messages(rejected)
    if chosen == rejected:
        raise candidates.LeftOut("both said the same")
    if for_openai:
        record = {
            "input": {"messages": openai_messages(prompt), **tools_of(better)},
            "preferred_output": chosen,
            "non_preferred_output": rejected,
        }
        return _checked(record, line_models.OpenAIPreference, "OpenAI")
    talk = trl_messages((*prompt, *chosen))
    record = {"prompt": talk[: len(prompt)], "chosen": talk[len(prompt) :], "rejected": trl_messages(rejected)}
    return _checked(record | tools_of(better), line_models.TrlPreference, "TRL")


def tools_of(sequence: TurnSequence) -> dict[str, Any]:
    """Return the member of a record that names the tools of a sequence; none where it was offered none."""
    return {"tools": list(sequence.tools)} if sequence.tools else {}


def unplaced_parts(sequence: TurnSequence) -> tuple[str, ...]:
    """Return what no format of messages has a place for, each thing by its name."""
    schema = ("an output schema",) if sequence.turns[-1].output_schema else ()
    return (*sequence.lost, *schema)


def _checked(record: dict[str, Any], model: type[Part], consumer: str) -> dict[str, Any]:
    if fault := next(faults(record, model), None):
        raise candidates.LeftOut(f"against {consumer}'s rules: {fault}")
    return record


def _attempted(make: Callable[[], dict[str, Any]], losses: candidates.Losses) -> dict[str, Any] | None:
    """Return a record, or count why there is none."""
    try:
        return make()
    except candidates.LeftOut as exc:
        losses.add("line", str(exc))
        return None
