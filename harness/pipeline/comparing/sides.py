"""What a comparison takes of each run: its shared queries, its rollouts, which of them meet, and its own noise."""

import string
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import combinations, islice
from pathlib import Path
from statistics import fmean

from harness.archive.reader import RunReader
from harness.archive.run_info import RunInfo
from harness.core.comparisons import ComparedRollout, ComparedSide
from harness.core.errors import UsageError, call, counted, option, quoted
from harness.core.rankings import Match
from harness.core.records import AGENT_FAILURES, Group, Query, Rollout, digest
from harness.ranking.judge_stats.orders import OrderSums, orders_of_pair
from harness.tournament.pairwise import CrossPair
from harness.transcripts.transcript import Transcript


def hash_content(query: Query) -> str:
    """Return the hash of what a query asks: its text, its items, its reference answer."""
    items = None if query.items is None else [dict(item) for item in query.items]
    return digest([query.text, items, query.reference])


def check_apart(train: Sequence[Query], held_out: Sequence[Query]) -> None:
    """Raise UsageError for a query that is asked in training, and held out as well."""
    both = {hash_content(query) for query in train}
    if shared_queries := [query for query in held_out if hash_content(query) in both]:
        some = ", ".join(quoted(query.text[:60]) for query in shared_queries[:3])
        raise UsageError(
            f"{counted(len(shared_queries), 'query is', 'queries are')} both in {option('queries')} and in "
            f"{option('gate')}: {some}; a candidate must not have met the gate's queries: leave them out of one"
        )


def split_off(train: Sequence[Query]) -> tuple[tuple[Query, ...], tuple[Query, ...]]:
    """Return training queries without those that are held out: the half whose content hashes are the smaller."""
    order = sorted(train, key=hash_content)
    held_out = {query.id for query in order[: len(order) // 2]}
    return tuple(q for q in train if q.id not in held_out), tuple(q for q in train if q.id in held_out)


def by_content(queries: Iterable[Query]) -> dict[str, str]:
    """Return the ids of queries by what they ask, in their order. A query that is there again has a hash of its own."""
    ids: dict[str, str] = {}
    seen = Counter[str]()
    for query in queries:
        content = hash_content(query)
        ids[digest([content, seen[content]]) if seen[content] else content] = query.id
        seen[content] += 1
    return ids


@dataclass(frozen=True)
class SharedQuery:
    """A query that every side has: what it asks, and its id on each side."""

    content: str
    ids: tuple[str, ...]


def shared(sides: Sequence[Mapping[str, str]]) -> list[SharedQuery]:
    """Return the queries that every side has (each side: ids by content), in the order of their hashes."""
    contents = set(sides[0]).intersection(*sides[1:])
    return [SharedQuery(content, tuple(side[content] for side in sides)) for content in sorted(contents)]


def takes_part(rollout: Rollout) -> bool:
    """Tell whether a rollout is compared: it ended well, or failed by the agent's own making, and nobody edited it."""
    if rollout.branch and rollout.branch.edit:
        return False
    return rollout.status == "ok" or (rollout.failure is not None and rollout.failure.kind in AGENT_FAILURES)


@dataclass(frozen=True)
class Draw:
    """How cross pairs are drawn: K for each two sides and query, by chance that comes from `seed` and the runs."""

    pairs: int
    seed: int
    runs: tuple[str, ...]
    """A hash for each side, which only its run has."""

    def of_query(self, content: str, sides: Sequence[Sequence[Rollout]]) -> list[CrossPair]:
        """Return the pairs of one query: for each two sides their samples' pairs, then the anchors' pair."""
        drawn: list[CrossPair] = []
        for a, b in combinations(range(len(sides)), 2):
            first, second = (self._shuffled(content, (a, b), side, sides[side]) for side in (a, b))
            swapped = self.runs[a] > self.runs[b]
            indices = met(second, first, self.pairs) if swapped else met(first, second, self.pairs)
            drawn += [CrossPair((a, b), "sample", *(reversed(pair) if swapped else pair)) for pair in indices]
            anchors = [[r.index for r in sides[side] if r.role == "anchor" and takes_part(r)] for side in (a, b)]
            drawn += [CrossPair((a, b), "anchor", *pair) for pair in zip(*anchors, strict=False)]
        return drawn

    def _shuffled(self, content: str, pair: tuple[int, int], side: int, rollouts: Sequence[Rollout]) -> list[int]:
        """Return the samples that take part, in an order that the absence of one of them does not change."""
        both = sorted(self.runs[one] for one in pair)
        samples = [r.index for r in rollouts if r.role == "sample" and takes_part(r)]
        return sorted(samples, key=lambda index: digest([self.seed, content, both, self.runs[side], index]))


def met(first: Sequence[int], second: Sequence[int], count: int) -> list[tuple[int, int]]:
    """Return `count` pairs of the two, none twice, or as many as there are; the first are the same for any count."""
    fewer, more = len(first), len(second)
    if fewer > more:
        return [(a, b) for b, a in met(second, first, count)]
    fresh = list(range(0, more, max(fewer, 1)))
    shifts = [*fresh, *(shift for shift in range(more) if shift not in fresh)]
    return [(a, second[(i + shift) % more]) for shift in shifts for i, a in enumerate(first)][:count]


SIDE_LABELS = string.ascii_uppercase


@contextmanager
def open_sides(folders: Iterable[Path]) -> Generator[list[RunReader]]:
    """Open the runs that are compared. Raises UsageError for one run, the same run twice, or more than 26."""
    with ExitStack() as opened:
        readers = [opened.enter_context(RunReader(folder)) for folder in folders]
        if not 2 <= len(readers) <= len(SIDE_LABELS):
            raise UsageError(f"a comparison takes 2 to {len(SIDE_LABELS)} sides, not {len(readers)}")
        (run, times), *_ = Counter(reader.info.id for reader in readers).most_common(1)
        if times > 1:
            raise UsageError(f"run {run} cannot be compared with itself: name two runs")
        for first, second in combinations(readers, 2):
            if (mine := _family(first.info)) & _family(second.info):
                fork = first.info.id if len(mine) > 1 else second.info.id
                raise UsageError(
                    f"runs {first.info.id} and {second.info.id} hold rollouts of one run, since {fork} is a fork: "
                    f"{call('show', fork)} ranks its branches among their siblings"
                )
        yield readers


def _family(info: RunInfo) -> set[str]:
    """Return the ids of a run, and of the run whose rollouts it holds if it is a fork."""
    return {info.id, *info.parents}


def match_queries(readers: Sequence[RunReader]) -> list[SharedQuery]:
    """Match the sides' queries by what they ask. Raises UsageError, with three of each side's, if none is shared."""
    if not (queries := shared([by_content(reader.queries()) for reader in readers])):
        sides = list[str]()
        for label, reader in zip(SIDE_LABELS, readers, strict=False):
            texts = (" ".join(query.text.split()) for query in islice(reader.queries(), 3))
            some = ", ".join(repr(text if len(text) <= 50 else f"{text[:49]}…") for text in texts)
            sides.append(f"{label}: {some or 'no query at all'}")
        raise UsageError(
            "the runs share no query (a query is told by its text, its input items and its reference answer): "
            f"{'; '.join(sides)}"
        )
    return queries


def compared_sides(readers: Sequence[RunReader], queries: Sequence[SharedQuery]) -> tuple[ComparedSide, ...]:
    """Return the sides as they are on disk now."""
    sides = list[ComparedSide]()
    for at, reader in enumerate(readers):
        info, ids = reader.info, [query.ids[at] for query in queries]
        rollouts = next((group.rollouts for name in ids if (group := shared_group(reader, name)).rollouts), ())
        models = dict.fromkeys(model for rollout in rollouts for model in rollout.effective.models)
        named, instructions_file = info.settings.get("model"), info.settings.get("instructions")
        side = ComparedSide(
            label=SIDE_LABELS[at],
            run=info.id,
            sha256=reader.info_sha256,
            basis=digest([reader.basis(name) for name in ids]),
            agent=info.agent,
            models=tuple(models) or ((named,) if isinstance(named, str) else ()),
            instructions=info.instructions or next((r.instructions for r in rollouts if r.instructions), None),
            instructions_file=instructions_file if isinstance(instructions_file, str) else None,
            offline=info.agent_offline,
            only_here=len(reader.index.queries) - len(queries),
        )
        sides.append(side)
    return tuple(sides)


def shared_group(reader: RunReader, query_id: str) -> Group:
    """Return a query of a run with its rollouts. Raises ArchiveDamaged."""
    query = reader.query(query_id)
    assert query, "the id comes from the run's own index"  # noqa: S101 - for the type checker
    return reader.group(query)


def compared_rollout(rollout: Rollout, text: Transcript | None, keep: Callable[[str], str]) -> ComparedRollout:
    """Return what a comparison keeps of a rollout; `keep` keeps a text, which only one that meets another has."""
    return ComparedRollout(
        index=rollout.index,
        role=rollout.role,
        status=rollout.status,
        failure=rollout.failure and rollout.failure.kind,
        **rollout.cost.named("usd"),
        tokens=rollout.usage.tokens,
        started_at=rollout.started_at,
        duration_s=rollout.duration_s,
        steps=len(rollout.trajectory.path),
        tools=tuple(s.tool_name for s in rollout.trajectory.path if s.kind == "tool" and s.tool_name),
        recipe=rollout.recipe and rollout.recipe.name,
        verified=rollout.verified,
        answer_length=len(rollout.trajectory.answer) if rollout.status == "ok" else None,
        transcript=text and text.hash,
        path_blob=keep(text.path) if text else None,
        answer_blob=keep(text.answer) if text else None,
    )


_ENOUGH_PAIRS = 20
"""Below this the share of ties says little."""


def chance_floor(reader: RunReader, judge: str, rubric: str, pairs: int) -> float | None:
    """Return the standard deviation of a query's win rate between equal agents, from a run's own judged pairs.

    Chance alone says whose win such a pair is: one that did not tie lies one half off the middle. `pairs` are the cross
    pairs of a query. None where the run holds too few that this judge judged in both orders by this rubric.
    """
    decided = [match.winner is not None for match in _judged(reader, judge, rubric)]
    if len(decided) < _ENOUGH_PAIRS:
        return None
    return (fmean(decided) / 4 / max(pairs, 1)) ** 0.5


def orders_within(reader: RunReader, judge: str, rubric: str) -> OrderSums:
    """Return how the two orders agree on a run's own pairs of samples of which both orders name a winner."""
    sums = OrderSums()
    for match in _judged(reader, judge, rubric):
        if match.flipped or not (match.inconsistent or match.winner is None):
            shown = zip(match.shown_first, match.scores, strict=True)
            sums += orders_of_pair((first == match.a, a - b if first == match.a else b - a) for first, (a, b) in shown)
    return sums


def _judged(reader: RunReader, judge: str, rubric: str) -> Iterator[Match]:
    """Yield the pairs of samples that the newest ranking of this kind judged in both orders."""
    like = [head for head in reader.heads() if head.judge.get("identity") == judge and head.rubric == rubric]
    if not like:
        return
    for ranked in reader.ranking(like[-1].id).groups:
        if judged := [m for m in ranked.matches if not m.repeated and {m.a, m.b} == set(m.shown_first)]:
            samples = {r.index for r in shared_group(reader, ranked.query).rollouts if r.role == "sample"}
            yield from (match for match in judged if {match.a, match.b} <= samples)
