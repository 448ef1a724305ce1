"""Who writes new candidates: a model, a user's function, or the embedded proposer; and which texts are refused."""

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from agents import Agent, AgentOutputSchema, ModelSettings, Runner
from pydantic import BaseModel

from harness.core.cost import NOTHING, Cost
from harness.core.errors import HarnessError, UsageError, before_colon, did_you_mean, option, quoted
from harness.core.improvements import INSTRUCTIONS, CandidateStanding, PairLesson, Proposal, TextCandidate
from harness.core.records import Bill, Usage
from harness.core.redaction import Redactor
from harness.endpoints.costs import Tokens, price_list
from harness.offline.model import joined_texts, rewritten
from harness.pipeline.judge_inputs import whole_text
from harness.pipeline.plan import Prepared
from harness.pipeline.resolve import env_before
from harness.pipeline.run_environment import RunEnvironment
from harness.pipeline.ways import asked_model
from harness.rollouts.models import recorded
from harness.rollouts.prompt_parts import parts_of, split_parts

Texts = Mapping[str, str]
Proposer = Callable[
    [CandidateStanding, Sequence[PairLesson], Sequence[CandidateStanding]], Sequence[Texts] | Awaitable[Sequence[Texts]]
]
"""Writes children from a parent, lessons, and all candidates that were tried, the parent among them."""
_LONGEST = 100_000
"""Characters of a part."""
_JUDGING = re.compile(r"\b(?:judges?|judging|rubrics?|graders?|LLM_[AB])\b", re.IGNORECASE)
_TRIED = 5


class _Children(BaseModel):
    """What a proposer model replies."""

    children: list[dict[str, str]]


_TASK = """\
You improve the texts that an assistant works by. You are given these texts by name, lessons from answers that were \
compared, and texts that were tried before. Write {count} new versions: each mends what the lessons show, each in \
another way, and stays general, for other questions will be asked.{merge} Keep what the lessons do not blame. Never \
speak of who compares the answers, or by what. Reply with JSON: {{"children": [{{"part's name": "its whole new \
text"}}]}}, a child a version; leave out parts that do not change."""
_MERGE = (
    " Write one version more, the last: it joins the best of the present texts and of the candidate named as other."
)


@dataclass(frozen=True)
class ProposalAsked:
    """What a proposer is asked for."""

    parent: CandidateStanding
    lessons: Sequence[PairLesson]
    tried: Sequence[CandidateStanding]
    count: int
    other: CandidateStanding | None
    """The candidate that the last child is to join with the parent; None: no child merges."""

    @property
    def prompt(self) -> str:
        """What a model reads."""
        blocks = [_shown("present", self.parent)] + ([_shown("other", self.other)] if self.other else [])
        blocks += [f"<lesson>\n{lesson.text}\n</lesson>" for lesson in self.lessons]
        known = sorted(self.tried, key=lambda one: -one.p_best)
        rest = [one for one in known if one not in (self.parent, self.other)]
        return "\n\n".join([*blocks, *(_shown("tried before", one) for one in rest[:_TRIED])])


def _shown(what: str, one: CandidateStanding) -> str:
    texts = "\n".join(f'<text name="{name}">\n{text}\n</text>' for name, text in one.parts.items())
    return f'<candidate is="{what}" won="{one.worth.value:.0%} against the first">\n{texts}\n</candidate>'


@dataclass(frozen=True)
class Written:
    """What a proposer gave, and what that took."""

    children: Sequence[object] = ()
    usage: Usage = field(default_factory=Usage)
    cost: Cost = NOTHING
    fault: str | None = None
    """Why there is nothing."""


async def propose(
    asked: ProposalAsked, proposer: Proposer | None, prepared: Prepared, model: str | None, run_env: RunEnvironment
) -> Written:
    """Have children written: by `proposer`, else by the named model, else by the agent's. Raises Refused."""
    if proposer:
        given = proposer(asked.parent, asked.lessons, asked.tried)
        returned: object = await given if inspect.isawaitable(given) else given
        if not isinstance(returned, list | tuple):
            kind = type(returned).__name__
            raise UsageError(f"proposer gave a {kind}: it must return a list of mappings from parts to texts")
        return Written(cast("Sequence[object]", returned))
    if prepared.agent.offline:
        return Written(_embedded(asked))
    async with asked_model(prepared, run_env) as asker:
        own = recorded(asker.own, asker.recorder).get("model", asker.own.model)
        task = _TASK.format(count=asked.count, merge=_MERGE if asked.other else "")
        output = AgentOutputSchema(_Children, strict_json_schema=False)
        writer = Agent(name="proposer", instructions=task, model=model or own, output_type=output)
        settings = ModelSettings(retry=asker.retries)
        config = replace(asker.config, model=model or asker.config.model, model_settings=settings)
        children, fault = list[object](), None
        try:
            done = await Runner.run(writer, asked.prompt, run_config=config, max_turns=1)
            children = list(cast("_Children", done.final_output).children)
        except HarnessError:
            raise
        except Exception as exc:  # noqa: BLE001 - a reply that cannot be read is paid for, too
            fault = f"the proposer gave nothing: {type(exc).__name__}: {exc}"[:300]
        return Written(children, *asker.paid(), fault)


def price_of_asking(asked: ProposalAsked, prepared: Prepared, model: str | None) -> float:
    """Return what asking a model is taken to cost, at most: 0 where its price is unknown."""
    texts = sum(map(len, asked.parent.parts.values()))
    tokens = Tokens(1, len(asked.prompt) // 3, 1_000 + (asked.count + 1) * texts // 3)
    agent = replace(prepared.agent, model=model or prepared.agent.model)
    return agent.priced(price_list(prepared.settings))[0].cost(Bill(tokens.usage())).known


def _embedded(asked: ProposalAsked) -> list[Texts]:
    own = {name: text for name, text in asked.parent.parts.items() if name.endswith(INSTRUCTIONS)}
    marks, other = [lesson.marks for lesson in asked.lessons], asked.other
    children: list[Texts] = [{name: new} for name, text in own.items() for new in rewritten(text, marks, asked.count)]
    joined = [{name: joined_texts(text, other.parts[name]) for name, text in own.items()}] if other else []
    return [*children[: asked.count], *joined]


@dataclass(frozen=True)
class Refusals:
    """What a text must not be to become a candidate."""

    names: Sequence[str]
    """Of the judge and the rubric."""
    redact: Redactor
    root: Texts

    def fault(self, child: Texts, parts: Texts) -> str | None:
        """Return why a child is refused that would have these parts, if it is."""
        if not child:
            return "it names no part"
        return next(filter(None, (self._fault_of(name, text) for name, text in parts.items())), None)

    def _fault_of(self, name: object, text: object) -> str | None:
        if name not in self.root:
            return f"it names {quoted(name)}, which is no part"
        if not isinstance(text, str) or not text.strip():
            return f"its {name} is empty"
        if len(text) > _LONGEST or whole_text(text, self.redact) is None:
            return f"its {name} is too long, or holds a key or what is taken out of all texts"
        words = [word.group().lower() for word in _JUDGING.finditer(text)]
        words += [each.lower() for each in self.names if each.lower() in text.lower()]
        named = next((word for word in words if word not in self.root[str(name)].lower()), None)
        return f"it speaks of the judging: {quoted(named)}" if named else None


def sifted(written: Written, asked: ProposalAsked, number: int, refusals: Refusals) -> Proposal:
    """Return a round's proposal: the children that may be candidates, numbered on, and why the others are refused."""
    known, children, refused = [dict(one.parts) for one in asked.tried], list[TextCandidate](), list[str]()
    for place, child in enumerate(written.children):
        new: Texts = cast("Texts", child) if isinstance(child, Mapping) else dict[str, str]()
        parts = {**asked.parent.parts, **new}
        many = "it is more than was asked for" if len(children) > asked.count else None
        if why := many or refusals.fault(new, parts) or ("it is what was tried before" if parts in known else None):
            refused.append(why)
            continue
        known.append(parts)
        other = [asked.other.number] if asked.other and place >= asked.count else []
        at, parents = len(asked.tried) + len(children), (asked.parent.number, *other)
        children.append(TextCandidate(number=at, round=number, parents=parents, parts=parts))
    return Proposal(
        round=number,
        parent=asked.parent.number,
        lessons=tuple(asked.lessons),
        children=tuple(children),
        refused=(*filter(None, [written.fault]), *refused),
        usage=written.usage,
        **written.cost.named("price_usd"),
    )


async def texts_of_parts(prepared: Prepared, names: Sequence[str]) -> dict[str, str]:
    """Return the texts that are to be improved. Raises UsageError for one that is not there."""
    agent = prepared.agent
    if not names:
        raise UsageError(f"{before_colon('parts')}: name at least one, such as {INSTRUCTIONS}")
    async with agent.loaded.open(env_before(prepared.settings, agent.endpoint, offline=agent.offline)) as made:
        there = parts_of(made) | (split_parts(given) if (given := agent.loaded.instructions) else {})
    for name in names:
        if name not in there or not there[name].strip():
            lacks = f"{option('parts', name)}: agent {agent.loaded.name!r} has no such text"
            if name == INSTRUCTIONS:
                lacks = f"the instructions of agent {agent.loaded.name!r} are made by a function, or there are none"
                lacks += f": name a text to begin with, {option('instructions', 'FILE')}"
            others = [each for each in there if each not in names]
            parts = f"; there are: {', '.join(others)}, for {option('parts')}" if others else ""
            raise UsageError(f"{lacks}{did_you_mean(name, others) or parts}")
    return {name: there[name] for name in names}
