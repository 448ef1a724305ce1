"""What a comparison takes of a run: who it is, its shared queries, its rollouts."""

import string
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.archive.reader import RunReader
from harness.core.comparisons import ComparedRollout, ComparedSide
from harness.core.errors import UsageError
from harness.core.records import Group, Rollout, digest
from harness.pipeline.comparing.pairs import SharedQuery, by_content, shared
from harness.transcripts.transcript import Transcript

SIDE_LABELS = string.ascii_uppercase


@contextmanager
def open_sides(folders: Iterable[Path]) -> Generator[list[RunReader]]:
    """Open the runs that are compared. Raises UsageError for one run, the same run twice, or more than 26."""
    with ExitStack() as opened:
        readers = [opened.enter_context(RunReader(folder)) for folder in folders]
        _check_sides(readers)
        yield readers


def _check_sides(readers: Sequence[RunReader]) -> None:
    if not 2 <= len(readers) <= len(SIDE_LABELS):
        raise UsageError(f"a comparison takes 2 to {len(SIDE_LABELS)} sides, not {len(readers)}")
    (run, times), *_ = Counter(reader.info.id for reader in readers).most_common(1)
    if times > 1:
        raise UsageError(f"run {run} cannot be compared with itself: name two runs")


@dataclass(frozen=True)
class MatchedQueries:
    """The queries that all sides share, and how many each side has beside them."""

    queries: Sequence[SharedQuery]
    only_here: tuple[int, ...]


def match_queries(readers: Sequence[RunReader]) -> MatchedQueries:
    """Match the sides' queries by what they ask. Raises UsageError, with three of each side's, if none is shared."""
    asked = [by_content(reader.queries()) for reader in readers]
    queries = shared(asked)
    if not queries:
        sides = (f"{label}: {_some(reader)}" for label, reader in zip(SIDE_LABELS, readers, strict=False))
        raise UsageError(
            "the runs share no query (a query is told by its text, its input items and its reference answer): "
            f"{'; '.join(sides)}"
        )
    return MatchedQueries(queries, tuple(len(side) - len(queries) for side in asked))


def _some(reader: RunReader) -> str:
    texts = [_short(query.text) for query, _ in zip(reader.queries(), range(3), strict=False)]
    return ", ".join(texts) or "no query at all"


def _short(text: str) -> str:
    on_a_line = " ".join(text.split())
    return repr(on_a_line if len(on_a_line) <= 50 else f"{on_a_line[:49]}…")


def compared_sides(readers: Sequence[RunReader], matched: MatchedQueries) -> tuple[ComparedSide, ...]:
    """Return the sides as they are on disk now."""
    return tuple(
        _side(reader, SIDE_LABELS[at], [query.ids[at] for query in matched.queries], matched.only_here[at])
        for at, reader in enumerate(readers)
    )


def _side(reader: RunReader, label: str, ids: Sequence[str], only_here: int) -> ComparedSide:
    info = reader.info
    first = next((group for name in ids if (group := shared_group(reader, name)).rollouts), None)
    rollouts = first.rollouts if first else ()
    models = dict.fromkeys(model for rollout in rollouts for model in rollout.effective.models)
    named, instructions_file = info.settings.get("model"), info.settings.get("instructions")
    return ComparedSide(
        label=label,
        run=info.id,
        sha256=reader.info_sha256,
        basis=digest([reader.basis(name) for name in ids]),
        agent=info.agent,
        models=tuple(models) or ((named,) if isinstance(named, str) else ()),
        instructions=info.instructions or next((r.instructions for r in rollouts if r.instructions), None),
        instructions_file=instructions_file if isinstance(instructions_file, str) else None,
        offline=info.agent_offline,
        only_here=only_here,
    )


def shared_group(reader: RunReader, query_id: str) -> Group:
    """Return a query of a run with its rollouts. Raises ArchiveDamaged."""
    query = reader.query(query_id)
    assert query, "the id comes from the run's own index"  # noqa: S101 - for the type checker
    return reader.group(query)


def compared_rollout(rollout: Rollout, text: Transcript | None, keep: Callable[[str], str]) -> ComparedRollout:
    """Return what a comparison keeps of a rollout; `keep` keeps a text, which only one that meets another has."""
    tools = (step.tool_name for step in rollout.trajectory.path if step.kind == "tool" and step.tool_name)
    return ComparedRollout(
        index=rollout.index,
        role=rollout.role,
        status=rollout.status,
        failure=rollout.failure and rollout.failure.kind,
        usd=rollout.price_usd,
        tokens=rollout.usage.tokens,
        duration_s=rollout.duration_s,
        steps=len(rollout.trajectory.path),
        tools=tuple(tools),
        verified=rollout.verified,
        answer_length=len(rollout.trajectory.answer) if rollout.status == "ok" else None,
        transcript=text and text.hash,
        path_blob=keep(text.path) if text else None,
        answer_blob=keep(text.answer) if text else None,
    )
