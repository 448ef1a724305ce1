"""`doctor --judge --probe RUN`: a run's judge is asked about probes made of its answers; what it leans to is kept.

Probes are pairs of texts that differ in nothing but a feature, made by rule from answers.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple

from harness.archive.reader import RunReader
from harness.archive.store import RunStore
from harness.core.answer_features import leaning_features, without_markup
from harness.core.errors import NothingRankable, UsageError, option
from harness.core.judge_profile import JudgeLeanings, ProbedJudge
from harness.core.rankings import Judged, Unjudged
from harness.core.records import Group
from harness.judging.judges import PairwiseJudge
from harness.judging.rubric import Rubric
from harness.judging.verdict_cache import CachedPairJudge, PairLedger, VerdictCache
from harness.pipeline.open_groups import for_each
from harness.pipeline.plan import JudgingPlan, RescoreOptions, rescoring
from harness.pipeline.resolve import make_ceiling, make_redactor
from harness.pipeline.run_environment import RunEnvironment, package_versions
from harness.pipeline.stages import judge_fault, open_judge_models
from harness.pipeline.trust import Trust, attest_judge, one_error
from harness.ranking.leanings import ProbeResult, leanings_record, learn_leanings
from harness.tournament.group import Rules, brief_task, rules_of

MOST_PROBES = 20
"""Each is judged in both orders."""
_OF_FORMATTING, _OF_ITSELF = 3, 3
"""So many at most; the others are of length."""
_TIMES = (2, 3)
"""How many times as long a padded answer is."""
_LONGEST = 6000
"""Characters beyond which an answer makes no probe, if others do."""
_LEAST_DIFFERENCE = 0.2
"""By which the two texts of a probe of formatting, or of talk of itself, differ."""
_OPENINGS = (
    *("As far as this goes", "In this respect", "Taken as a whole", "To put it in context"),
    *("With regard to the question", "At this point", "On the matter at hand"),
)
_MIDDLES = (
    *("there are several things to bear in mind", "it is worth noting what was asked"),
    *("the subject has more than one side", "the answer depends on how it is read", "the usual considerations apply"),
    *("it helps to look at the whole picture", "much could be said in general"),
    *("the topic deserves some attention", "a number of points come together"),
)
_ENDINGS = (
    *("when it comes down to it", "in one way or another", "as is often the case", "for the purpose of this answer"),
    *("from a general point of view", "for whoever reads this", "all things considered", "in the broader sense"),
)
_A_PARAGRAPH = 5
_SENTENCE = re.compile(r"(?m)(^|(?<=[.!?]) )(?!I\b)([A-Z])(?=[a-z ])")
_CODE = "```"


class AnswerAtHand(NamedTuple):
    """An answer of a run."""

    query: str
    rollout: int
    text: str


class Probe(NamedTuple):
    """Two texts to stand in the place of one answer; the first has more of the feature."""

    of: AnswerAtHand
    first: str
    second: str

    @property
    def differences(self) -> tuple[float, ...]:
        """The features of the first text less those of the second."""
        both = (leaning_features(text).values for text in (self.first, self.second))
        return tuple(a - b for a, b in zip(*both, strict=True))


def probes_from(answers: Sequence[AnswerAtHand]) -> list[Probe]:
    """Return at most MOST_PROBES probes, at least half of them of length, always the same for the same answers."""
    different = {(a.query, a.text): a for a in reversed(answers) if a.text.strip()}
    known = list(different.values())[::-1]
    short = [a for a in known if len(a.text) <= _LONGEST]
    usable = short or sorted(known, key=lambda answer: len(answer.text))[:MOST_PROBES]
    others = [
        *islice(_differing(usable, _formatted, 1), _OF_FORMATTING),
        *islice(_differing(usable, _speaking_of_itself, 2), _OF_ITSELF),
    ]
    lengths = [
        Probe(answer, padded(answer.text, _TIMES[(at + turn) % len(_TIMES)]), answer.text)
        for turn in range(len(_TIMES))
        for at, answer in enumerate(usable)
    ]
    lengths = lengths[: MOST_PROBES - len(others)]
    return [*lengths, *others[: len(lengths)]]


def padded(text: str, times: int) -> str:
    """Return a text followed by sentences without content, so that it is so many times as long."""
    sentences, missing = list[str](), (times - 1) * len(text)
    for at in count():
        if missing <= 0:
            break
        parts = (words[at % len(words)] for words in (_OPENINGS, _MIDDLES, _ENDINGS))
        sentences.append("{}, {} {}.".format(*parts))
        missing -= len(sentences[-1]) + 1
    paragraphs = (sentences[at : at + _A_PARAGRAPH] for at in range(0, len(sentences), _A_PARAGRAPH))
    return "\n\n".join([text.rstrip(), *map(" ".join, paragraphs)])


def _differing(
    answers: Sequence[AnswerAtHand], pair: Callable[[str], tuple[str, str]], feature: int
) -> Iterator[Probe]:
    """Yield the probes of those answers of which a rule makes two texts that differ enough."""
    for answer in answers:
        probe = Probe(answer, *pair(answer.text))
        if _CODE not in answer.text and probe.differences[feature] >= _LEAST_DIFFERENCE:
            yield probe


def _formatted(text: str) -> tuple[str, str]:
    """Return a text with its markup and without it; one that has none with some."""
    if (plain := without_markup(text)) != text:
        return text, plain
    return "\n".join(_as_item(line) if line.strip() else line for line in text.splitlines()), text


def _as_item(line: str) -> str:
    first, *rest = line.split(maxsplit=1)
    return " ".join(["-", f"**{first}**", *rest])


def _speaking_of_itself(text: str) -> tuple[str, str]:
    """Return a text whose sentences and end are in the first person, and one as long in which nobody speaks."""

    def with_words(opening: str, end: str) -> str:
        said = _SENTENCE.sub(lambda match: f"{match[1]}{opening}{match[2].lower()}", text.strip())
        return f"{said}\n\n{end}"

    return (
        with_words("I think that ", "I am sorry if this is not all that I was asked."),
        with_words("It seems that ", "This may not be all of what was asked here."),
    )


_QUERIES_LOOKED_AT = 200
"""The answers of so many queries, spread evenly, are enough to choose from."""


@dataclass(frozen=True)
class ProbePlan:
    """The probes of a run, and who is asked about them."""

    folder: Path
    trust: Trust
    judging: JudgingPlan
    rubric: Rubric
    probes: list[Probe]
    groups: Mapping[str, Group]
    """By query, those that a probe is of."""

    @property
    def calls(self) -> int:
        """How many verdicts are asked for at most."""
        return 2 * len(self.probes)


@dataclass
class ProbeOutcome:
    """What came of probes."""

    judge: str
    rubric: str
    leanings: JudgeLeanings | None = None
    """None where no probe could be judged in both orders."""
    bought: int = 0
    failed: list[Unjudged] = field(default_factory=list[Unjudged])


async def plan_probes(
    folder: Path, changes: Mapping[str, Any], environ: Mapping[str, str], *, trust_archive: bool = False
) -> ProbePlan:
    """Return what is to be asked of a run's judge, or of the one that `changes` name. Raises as `rescoring` does.

    Raises UsageError for a listwise judge, a jury, and a judge that cannot be asked; NothingRankable for a run without
    an answer.
    """
    with RunReader(folder) as reader:
        trust, plan = await rescoring(reader, changes, environ, RescoreOptions(trust_archive=trust_archive))
        if plan.settings.judge != "pairwise" or not isinstance(plan.rubric, Rubric):
            raise UsageError(f"--probe with {option('judge', plan.settings.judge)}: probes are pairs")
        if len(plan.judge.members) > 1:
            raise UsageError(f"one judge is probed at a time: give one {option('judge_model')}")
        if fault := judge_fault(plan):
            raise fault
        names = list(reader.index.queries)
        count = min(len(names), _QUERIES_LOOKED_AT)
        some = [reader.query(names[at * len(names) // count]) for at in range(count)]
        groups = {query.id: reader.group(query) for query in some if query}
    if not (probes := probes_from(_answers(groups))):
        raise NothingRankable(f"run {folder.name} holds no answer that a probe could be made of")
    used = {probe.of.query for probe in probes}
    kept = {name: group for name, group in groups.items() if name in used}
    return ProbePlan(folder, trust, plan, plan.rubric, probes, kept)


def _answers(groups: Mapping[str, Group]) -> list[AnswerAtHand]:
    """Return the answers in plain text, those of different queries first."""
    answers = [
        AnswerAtHand(name, rollout.index, rollout.trajectory.answer)
        for name, group in groups.items()
        for rollout in group.rollouts
        if rollout.status == "ok" and rollout.trajectory.answer_type == "text"
    ]
    return sorted(answers, key=lambda answer: answer.rollout)


async def judge_probes(plan: ProbePlan, run_env: RunEnvironment) -> ProbeOutcome:
    """Ask the judge about each probe in both orders, and keep the verdicts and the leanings with the run.

    A verdict that the run holds is not bought again. Raises Refused where a call is refused.
    """
    judging, settings = plan.judging, plan.judging.settings
    attest_judge(plan.trust, run_env, [member.base_url for member in judging.judge.members])
    redact = make_redactor(None, plan.trust.without_patterns(settings), run_env.environ)
    rules, ledger, leads = rules_of(settings, judging.judge.counter), PairLedger(), dict[int, ProbeResult]()
    keys = list[str]()
    with RunStore(plan.folder, run_env.clock(), versions=package_versions(), redact=redact) as store:
        ceiling = make_ceiling(settings, judging.judge)
        cache = VerdictCache(store, run_env.progress, (), ceiling, stop=run_env.stop)
        run_env.progress.total("judging", plan.calls, plan.calls)
        with one_error(store, new=False):
            parts = judging.judge, settings, judging.credentials, store, run_env
            async with open_judge_models(*parts, agents=judging.judge_agents) as (model,):
                judge = CachedPairJudge(PairwiseJudge(model, plan.rubric), cache)

                async def ask(numbered: tuple[int, Probe]) -> None:
                    number, probe = numbered
                    match await _both_orders(judge, ledger, probe, plan.groups[probe.of.query], rules):
                        case [Judged() as one, Judged() as other]:  # what the first text got more, the mean of both
                            lead = (one.a.combined - one.b.combined + other.b.combined - other.a.combined) / 2
                            leads[number] = ProbeResult(probe.differences, lead)
                            keys.extend((one.key, other.key))
                        case _:
                            pass

                await for_each(enumerate(plan.probes), ask, settings.judge_concurrency)
        failed = [verdict for verdict in ledger.bought.values() if isinstance(verdict, Unjudged)]
        outcome = ProbeOutcome(judging.judge.identity, plan.rubric.label, None, ledger.judged, failed)
        if leads:
            learnt = learn_leanings([leads[number] for number in sorted(leads)])
            outcome.leanings = leanings_record(learnt, 2 * len(leads))
            probed = ProbedJudge(
                at=run_env.clock(),
                judge=outcome.judge,
                rubric=outcome.rubric,
                rendering=plan.rubric.rendering,
                leanings=outcome.leanings,
                verdicts=tuple(sorted(keys)),
            )
            store.add_probed_judge(probed)
            await store.commit()
        return outcome


async def _both_orders(
    judge: CachedPairJudge, ledger: PairLedger, probe: Probe, group: Group, rules: Rules
) -> list[Judged | Unjudged]:
    (rollout,) = (rollout for rollout in group.rollouts if rollout.index == probe.of.rollout)
    probed = [rollout.trajectory.model_copy(update={"answer": text}) for text in (probe.first, probe.second)]
    texts = [rules.form(trajectory, group.query.reference) for trajectory in probed]
    task = brief_task(group, rules)
    return [await judge.get(ledger, task, *shown) for shown in (texts, texts[::-1])]
