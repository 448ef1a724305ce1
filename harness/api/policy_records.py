"""What a training loop of your own gets of a group: sequences of sampled tokens with versions and advantages."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from harness.core.errors import UsageError, option
from harness.core.rankings import GroupRanking
from harness.core.records import AGENT_FAILURES, Group, Query
from harness.core.settings import Settings
from harness.formats.training import candidates
from harness.formats.training.rules import ExportRules
from harness.formats.turns import TurnSequence, token_fields
from harness.ranking.rewards import advantages


@dataclass(frozen=True)
class PolicyTurn:
    """A model call in a sequence: it sampled the tokens from `start` up to `end`."""

    start: int
    end: int
    versions: tuple[int, ...]
    """The policy's version when the call began, and when its reply came if that is another."""
    cut: bool
    """The reply was cut at the token limit."""


@dataclass(frozen=True)
class PolicySequence:
    """Tokens as the server had them, from one prompt on. `token_ids`, `mask` and `logprobs` have one entry a token."""

    agent: str | None
    within: str | None
    """The id of the tool call that a nested agent answers; None for an agent of the outermost run."""
    token_ids: tuple[int, ...]
    mask: tuple[int, ...]
    """1: the policy sampled the token, and it is to be trained."""
    logprobs: tuple[float, ...]
    """As the server sampled; 0.0 where it did not."""
    turns: tuple[PolicyTurn, ...]


@dataclass(frozen=True)
class PolicyRollout:
    """One rollout; all of its sequences have its advantage."""

    index: int
    reward: float
    advantage: float
    """The reward less the group's mean, by its standard deviation."""
    answer: str
    failed: str | None
    """The kind of a failure of the agent's own, which ranks the rollout last; None for one that ended well."""
    sequences: tuple[PolicySequence, ...]

    @property
    def versions(self) -> tuple[int, ...]:
        """The policy's versions behind it, oldest first; the turns say which call had which."""
        return tuple(sorted({v for sequence in self.sequences for turn in sequence.turns for v in turn.versions}))

    @property
    def cut(self) -> bool:
        """Whether a reply was cut at the token limit."""
        return any(turn.cut for sequence in self.sequences for turn in sequence.turns)


@dataclass(frozen=True)
class PolicyGroup:
    """All rollouts of a query, judged."""

    query: Query
    rollouts: tuple[PolicyRollout, ...]
    version: int
    """The policy's version when the group was handed out."""
    ranking: GroupRanking
    recorded: Group
    """The rollouts as the archive has them."""

    @property
    def staleness(self) -> int:
        """How many versions its oldest call is behind."""
        return self.version - min(version for rollout in self.rollouts for version in rollout.versions)


@dataclass(frozen=True, kw_only=True)
class GroupRules:
    """Which groups a training gets, and what of them it trains. Raises UsageError for a number below its least."""

    max_staleness: int = 1
    """How many versions the oldest call of a group may be behind when the group is handed out."""
    groups_per_step: int = 1
    """How many groups the trainer takes for a step: so far ahead rollouts go as `max_staleness` lets them."""
    weak: bool = False
    """Whether groups with a weak signal are handed out."""
    nested: Literal["train", "mask"] = "train"
    """Whether what nested agents sampled is trained."""
    cut: Literal["train", "mask"] = "train"
    """Whether a reply that was cut at the token limit is trained."""
    max_skipped: int = 100
    """So many groups may be skipped one after another: more say that nothing is learnt any more."""

    def __post_init__(self) -> None:
        """Check the values."""
        for name, least in (("max_staleness", 0), ("groups_per_step", 1), ("max_skipped", 0)):
            if type(value := getattr(self, name)) is not int or value < least:
                raise UsageError(f"{name}={value!r}: give a whole number, at least {least}")
        for name in ("nested", "cut"):
            if (value := getattr(self, name)) not in ("train", "mask"):
                raise UsageError(f"{name}={value!r}: give 'train' or 'mask'")

    @property
    def ahead(self) -> int:
        """How many groups may be under way, or wait, for one version of the policy."""
        return self.groups_per_step * (self.max_staleness + 1)


def why_not_whole(group: Group, n: int) -> str | None:
    """Return why a group is not what was asked for: a rollout is missing, or failed for what is not the agent's."""
    if len(group.rollouts) < n:
        return f"{n - len(group.rollouts)} of {n} rollouts were not begun"
    kinds = [r.failure.kind for r in group.rollouts if r.failure and r.failure.kind not in AGENT_FAILURES]
    return f"a rollout failed ({kinds[0]})" if kinds else None


def refuse_other_sampling(group: Group, settings: Settings) -> None:
    """Raise UsageError where a call was not sampled as asked: its probabilities are not those that are trained."""
    for rollout in group.rollouts:
        why = "; ".join(rollout.effective.exceptions)
        odd = [c.top_p for c in rollout.calls if c.error is None and c.top_p not in (None, settings.top_p or 1.0)]
        if why or odd:
            raise UsageError(
                f"rollout {rollout.index} of query {rollout.query!r} was not sampled as asked "
                f"({why or f'top_p {odd[0]:g}'}), so nothing of it is trained: take temperature and top_p out of the "
                f"agent's ModelSettings, or ask for them ({option('temperature')}, {option('top_p')}) at a server that "
                "takes them"
            )


def policy_rollouts(
    group: candidates.RankedGroup, turns_of: candidates.TurnsOf, rules: GroupRules, losses: candidates.Losses
) -> tuple[PolicyRollout, ...] | None:
    """Return what is trained of a ranked group; None where it teaches nothing or is not whole, which is counted."""
    export = ExportRules(format="groups", weak=rules.weak, included=frozenset({"failed", "flagged", "cut"}))
    if not candidates.group_may_go_in(group, export, losses):
        return None
    choices = sorted(candidates.choose_rollouts(group, export, losses, turns_of), key=lambda choice: choice.index)
    if len(choices) < len(group.group.rollouts) or not candidates.rewards_teach(choices, export, losses):
        return None
    rewards = [choice.place.reward or 0.0 for choice in choices]
    standardized = advantages([Fraction(reward) for reward in rewards])
    made = [_rollout(*member, rules) for member in zip(choices, rewards, standardized, strict=True)]
    if None in made:
        losses.add("group", "the tokens of a call, or the policy's version behind it, are not known")
        return None
    return tuple(rollout for rollout in made if rollout)


def _rollout(choice: candidates.Candidate, reward: float, advantage: float, rules: GroupRules) -> PolicyRollout | None:
    rollout = choice.rollout
    versions = {call.raw: call.policy for call in rollout.calls}
    sequences = [_sequence(sequence, versions.get, rules) for sequence in choice.sequences]
    whole = tuple(sequence for sequence in sequences if sequence)
    if len(whole) < len(sequences) or not all(turn.versions for sequence in whole for turn in sequence.turns):
        return None
    failed = rollout.failure.kind if rollout.failure else None
    return PolicyRollout(choice.index, reward, advantage, rollout.trajectory.answer, failed, whole)


def _sequence(
    sequence: TurnSequence, versions_of: Callable[[int | None], Sequence[int] | None], rules: GroupRules
) -> PolicySequence | None:
    fields = token_fields(sequence)
    if "logprobs" not in fields:
        return None
    mask, turns, within = fields["token_mask"], list[PolicyTurn](), sequence.turns[0].within
    for turn in sequence.turns:
        assert turn.tokens  # noqa: S101 - for the type checker: there are token fields
        start, end = len(turn.tokens.prompt_ids), len(turn.tokens.prompt_ids) + len(turn.tokens.ids)
        turns.append(PolicyTurn(start, end, tuple(versions_of(turn.call) or ()), turn.cut))
        if (turn.cut and rules.cut == "mask") or (within and rules.nested == "mask"):
            mask[start:end] = [0] * (end - start)
    logprobs = tuple(logprob or 0.0 for logprob in fields["logprobs"])
    first = sequence.turns[0]
    return PolicySequence(first.agent, within, fields["token_ids"], tuple(mask), logprobs, tuple(turns))
