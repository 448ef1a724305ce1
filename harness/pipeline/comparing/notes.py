"""What a reader of a comparison must know of its runs and its judge, in sentences."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from harness.archive.reader import RunReader
from harness.core.comparisons import ComparedSide
from harness.core.plurals import counted
from harness.pipeline.comparing.sides import SIDE_LABELS
from harness.pipeline.plan import recorded_judge
from harness.pipeline.resolve import JudgeSpec

_FAMILIES = {"chatgpt": "gpt", "o": "gpt", "codex": "gpt", "mixtral": "mistral", "codestral": "mistral"}
"""Names of models that belong to another name's family."""

_VENDOR = re.compile(r"^(ft:|([a-z-]+\.)+(?=[a-z]))")
"""What stands before a model's name: `anthropic.` in `anthropic.claude-5`, `ft:` in that of a fine-tuned model."""


def notes_of(
    readers: Sequence[RunReader], sides: Sequence[ComparedSide], judge: JudgeSpec, rubric: str
) -> tuple[str, ...]:
    """Return the notes that are known before anything is judged."""
    return (
        *_differing("rubrics", {reader.info.id: reader.info.rubric for reader in readers}, rubric),
        *_differing("judges", {reader.info.id: _judge_of(reader) for reader in readers}, judge.identity),
        *_families(sides, judge),
        *(_only_here(side) for side in sides if side.only_here),
        *_unfinished(readers, sides),
    )


def _differing(what: str, by_run: Mapping[str, str | None], now: str) -> Iterator[str]:
    """Say that the runs were ranked in different ways, and how the cross matches are judged."""
    ways = [way for way in by_run.values() if way]
    if len(set(ways)) > 1:
        each = ", ".join(f"{label}: {way}" for label, way in zip(SIDE_LABELS, by_run.values(), strict=False) if way)
        yield f"the runs have different {what} ({each}); all cross matches are judged with {now}"


def _judge_of(reader: RunReader) -> str | None:
    judge = reader.info.judge
    return recorded_judge(judge, reader.folder / "run.json").identity if judge else None


def _families(sides: Sequence[ComparedSide], judge: JudgeSpec) -> Iterator[str]:
    """Warn of a judge that is of the family of some sides' models, and not of the others'."""
    for member in judge.members:
        family = family_of(member.model)
        kin = [side.label for side in sides if family in {family_of(model) for model in side.models}]
        if not member.offline and 0 < len(kin) < len(sides):
            whose = " and ".join(kin)
            yield f"the judge {member.model} is of the same family as the model of {whose}: judges favour their own"


def family_of(model: str) -> str:
    """Return the family of a model, by its name: `gpt` of `openai/gpt-5.2` and of `o3-mini`."""
    name = _VENDOR.sub("", model.rsplit("/", 1)[-1].lower())
    begin = re.match(r"[a-z]+", name)
    word = begin.group() if begin else name
    return _FAMILIES.get(word, word)


def _unfinished(readers: Sequence[RunReader], sides: Sequence[ComparedSide]) -> Iterator[str]:
    """Say of which runs rollouts never ended, so that they take no part."""
    for reader, side in zip(readers, sides, strict=True):
        wanted, queries = reader.info.settings.get("n"), reader.index.queries
        ended = sum(len(reader.index.rollouts.get(query, {})) for query in queries)
        missing = (wanted * len(queries) if reader.info.judge and isinstance(wanted, int) else 0) - ended
        if missing > 0:
            rollouts = counted(missing, "rollout")
            run = shlex.quote(reader.typed_name)
            yield f"{rollouts} of {side.label} never ended; `harness resume {run}` runs what is missing"


def _only_here(side: ComparedSide) -> str:
    queries = counted(side.only_here, "query", "queries")
    return f"{queries} of {side.label} left out: not every other side has {'it' if side.only_here == 1 else 'them'}"
