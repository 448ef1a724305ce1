"""What `--vary` asks for, settled before anything is spent: the texts of its variants stand in the run's settings."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from harness.archive.paraphrases import kept_paraphrases
from harness.core.errors import Refused, UsageError, before_colon, on_a_line, option
from harness.core.recipes import AUTO_EFFORTS, AUTO_PARAPHRASES, BY_TEMPERATURE, Vary, parse_paraphrases, parse_variants
from harness.core.records import Group
from harness.core.redaction import Redactor
from harness.core.settings import Settings
from harness.core.user_files import read_text
from harness.endpoints.costs import CostBounds, PriceList, Tokens, cost_bounds
from harness.endpoints.refused_settings import other_ways
from harness.pipeline.judge_inputs import whole_text
from harness.pipeline.resolve import AgentSpec
from harness.rollouts.variation import vary_in

_MOST = 1_000_000
_GROUPS = 3
"""So many groups show whether a temperature is ignored, of as many samples each as tell a draw from chance."""
_SAMPLES = 3


class EqualAnswers:
    """Looks at the first groups of a run, and says where none of them has samples that differ."""

    def __init__(self, settings: Settings, agent: AgentSpec | None, note: Callable[[str], None]) -> None:
        """Call `note` at most once. Nothing is looked at where samples are not varied by temperature alone."""
        self._asked = settings.temperature if vary_in(settings) == BY_TEMPERATURE and settings.temperature else None
        self._left = _GROUPS if self._asked and agent and not agent.offline else 0
        self._note = note

    def look(self, group: Group) -> None:
        """Look at a group that has just been rolled out."""
        heard = [r for r in group.rollouts if r.role == "sample" and r.status == "ok" and r.effective.uniform]
        answers = [r.trajectory.answer for r in heard]
        if not self._left or len(answers) < _SAMPLES:
            return
        self._left = self._left - 1 if len(set(answers)) == 1 else 0
        if self._left == 0 and len(set(answers)) == 1:
            same = f"in each of the first {_GROUPS} groups all samples gave one answer"
            ignored = (
                f"unless the agent can give only one, the model ignores {option('temperature', f'{self._asked:g}')}"
            )
            self._note(f"{same}: {ignored}, {other_ways()}")


def settle_vary(settings: Settings, agent: AgentSpec, redact: Redactor, environ: Mapping[str, str]) -> Settings:
    """Return settings whose way to vary holds the texts of its variants, as far as they are there.

    What the model is yet to be asked is left open: see `with_ways`. Raises UsageError for a way that cannot be.
    """
    if settings.vary is None:
        return settings
    vary, named = vary_in(settings), before_colon("vary")
    if vary.auto and agent.offline:  # the embedded model heeds a temperature
        return replace(settings, vary=str(BY_TEMPERATURE))
    if agent.offline and (vary.efforts or vary.models):
        way = "effort" if vary.efforts else "models"
        raise UsageError(f"{named}: {way} changes nothing of the embedded model; vary instructions or temperature")
    if vary.paraphrases:
        own = own_instructions(agent, redact, f"{named}: instructions={vary.paraphrases}")
        if agent.offline:
            reply = "\n---\n".join(f"Put another way ({at}): {own}" for at in range(1, vary.paraphrases + 1))
        else:
            reply = kept_paraphrases(own, vary.paraphrases, agent.place, environ)
        vary = with_paraphrases(vary, reply, own) if reply else vary
    if vary.file:
        name = f"{named}: instructions={on_a_line(vary.file)}"
        try:
            vary = vary.with_variants(parse_variants(read_text(Path(vary.file), name, most=_MOST)))
        except ValueError as exc:
            raise UsageError(f"{name}: {exc}") from None
    if vary.asks_first and settings.shard:
        apart = f"{named}: {vary} asks the model first, and parts of a run that differ in that are not merged"
        raise UsageError(f"{apart}; make a run without {option('shard')}, and name the way that it found")
    return with_vary(settings, vary, redact)


def refuse_asking(settings: Settings) -> None:
    """Refuse a way to vary for which the model is asked first, where nothing is kept of that. Raises UsageError."""
    if vary_in(settings).asks_first:
        asked = f"{before_colon('vary')}: {settings.vary} asks the model first, and here no run keeps what it replies"
        raise UsageError(f"{asked}; `harness.run` does, or name the ways and texts themselves")


def with_vary(settings: Settings, vary: Vary, redact: Redactor) -> Settings:
    """Return settings with a way to vary. Raises UsageError where a run may not keep its texts."""
    text, named = str(vary), before_colon("vary")
    if whole_text(text, redact) is None:
        raise UsageError(f"{named}: a key, or what {option('redact')} takes out, stands in it, and no run may keep it")
    return replace(settings, vary=text)


def own_instructions(agent: AgentSpec, redact: Redactor, what: str) -> str:
    """Return the instructions that are to be paraphrased. Raises UsageError, which begins with `what`."""
    own = agent.instructions
    if not own or not own.strip():
        no_text = "are made by a function, or there are none"
        advice = f"write variants into a FILE, and name it with {option('vary', 'instructions=FILE')}"
        raise UsageError(f"{what}: the instructions of agent {agent.loaded.name!r} {no_text}; {advice}")
    if whole_text(own, redact) is None:
        raise UsageError(f"{what}: a key, or what {option('redact')} takes out, stands in the agent's instructions")
    return own


def with_paraphrases(vary: Vary, reply: str, own: str) -> Vary:
    """Return a way to vary with the paraphrases that a model wrote. Raises Refused where it wrote none."""
    count = vary.paraphrases or AUTO_PARAPHRASES
    if texts := parse_paraphrases(reply, own, count):
        return vary.with_variants(texts)
    asked = f"{before_colon('vary')}: the model was asked for {count} paraphrases and wrote none"
    raise Refused(f"{asked}; write variants into a FILE, and name it with {option('vary', 'instructions=FILE')}")


ZERO_TRIES, TRIES = 2, 3
"""How often `auto` asks at temperature 0, and at the samples' temperature."""


def cost_of_asking(vary: Vary, agent: AgentSpec, prices: PriceList) -> CostBounds | None:
    """Return what the model is asked before the first rollout is taken to cost; None if its price is unknown."""
    if not vary.asks_first or agent.offline:
        return CostBounds(0.0, 0.0)
    count, size = vary.paraphrases or AUTO_PARAPHRASES, 200 + len(agent.instructions or "") // 4
    least = most = Tokens(1, size, count * size)
    if vary.auto:
        calls = ZERO_TRIES + TRIES
        least, most = Tokens(calls, 100, 100), Tokens(calls + len(AUTO_EFFORTS) + 1, size, count * size)
    return cost_bounds((1, 1), (least, most), agent.priced(prices)[0])
