"""Which branches a fork would begin, and what they are likely to take: read from the archive alone."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple, cast

from harness.archive.reader import RunReader
from harness.archive.run_state import branch_calls
from harness.core.branch_point import BranchPoint, Edit
from harness.core.cost import Cost, total_cost
from harness.core.errors import UsageError, counted, did_you_mean, option, quoted, switch
from harness.core.fork_rules import ForkRules
from harness.core.records import Query, Rollout, Usage, digest
from harness.ranking.fork_points import auto_points, parted_points
from harness.report.summary.credit import RunCredit
from harness.report.summary.why import judged_ranking
from harness.rollouts.packed_calls import unpack_plain
from harness.rollouts.snapshots import NOTHING_KEPT, KeptState, unpack_state
from harness.rollouts.states import state_names

_NO_FUNCTION = frozenset({"apply_patch", "computer", "custom_tool", "local_shell", "shell"})
"""Tools that act where no record sees it."""
_AT_SERVER = "code_interpreter"
_KEEPERS = "snapshot(context, call) and restore(context, state)"


@dataclass(frozen=True)
class EditAsked:
    """An edit as a user asks for it."""

    call: int
    edit: Edit
    tool: str | None = None
    """Whose output it is, where the call asked for several tools."""


def read_edit(given: Mapping[str, Any]) -> EditAsked:
    """Return an edit from its JSON. Raises UsageError."""
    known = ("call", "output", "message", "tool")
    if unknown := sorted(given.keys() - {*known}):
        raise UsageError(f"{option('edit')}: {quoted(unknown[0])} is no field of an edit; it has {', '.join(known)}")
    call, texts = given.get("call"), {name: given[name] for name in ("output", "message") if name in given}
    if type(call) is not int or call < 1:
        raise UsageError(f"{option('edit')}: `call` is the number of a model call, from 1, as `harness credit` counts")
    if len(texts) != 1 or not all(isinstance(text, str) for text in texts.values()):
        raise UsageError(f"{option('edit')}: give `output` (of a tool) or `message` (of the model), as a text")
    tool = given.get("tool")
    if not isinstance(tool, str | None):
        raise UsageError(f"{option('edit')}: `tool` is the name of a tool")
    return EditAsked(call, Edit(**texts), tool)


class PlannedBranch(NamedTuple):
    """A branch, and what it takes if it makes as many model calls as its rollout did from there on."""

    query: str
    branch: BranchPoint
    calls: int
    first: Usage | None
    """Of the first of these calls: its input is the prefix."""
    cost: Cost
    gain: float = 0.0
    """By how many nats it is expected to narrow which step decided; 0 where nobody asked."""


@dataclass(frozen=True)
class ForkPlan:
    """The branches that a fork begins."""

    branches: tuple[PlannedBranch, ...]
    left_out: Mapping[str, int]
    """Why rollouts and places have no branch, in words, and how many each."""
    most: int | None
    """How many new model calls all branches of the fork may make, those before included; None: as many as they do."""

    @property
    def calls(self) -> int:
        """New model calls."""
        return sum(planned.calls for planned in self.branches)

    @property
    def prefix(self) -> Usage:
        """Of the first new call of each branch: `input` is what the prefixes have, `cached` what a cache gave."""
        return sum((planned.first for planned in self.branches if planned.first), Usage())

    @property
    def cost(self) -> Cost:
        """What the new calls cost, at what the recorded ones cost."""
        return total_cost([planned.cost for planned in self.branches])

    @property
    def by_query(self) -> dict[str, tuple[BranchPoint, ...]]:
        """The branches of each query."""
        found = dict[str, tuple[BranchPoint, ...]]()
        for planned in self.branches:
            found[planned.query] = (*found.get(planned.query, ()), planned.branch)
        return found


@dataclass(frozen=True)
class _Recorded:
    """A rollout with its recorded model calls."""

    rollout: Rollout
    calls: Sequence[tuple[dict[str, Any], dict[str, Any]]]
    get: Callable[[str], str]
    """Finds a text of the archive."""

    @cached_property
    def states(self) -> tuple[str, ...]:
        made, folders = self.rollout.calls, self.rollout.temporary_folders
        return state_names((request for request, _ in self.calls), made, temporary=folders)

    def items(self, at: int) -> list[dict[str, Any]]:
        """Return the items of a reply."""
        output: Any = self.calls[at][1].get("output")
        return [cast("dict[str, Any]", item) for item in output or () if isinstance(item, dict)]

    def follows_tools(self, at: int) -> bool:
        """Return whether a model call was shown something of a tool that no call before it had been."""
        shown: Any = self.calls[at][0]["input"]
        last = cast("list[Any]", shown)[-1] if isinstance(shown, list) and shown else None
        return isinstance(last, dict) and str(cast("dict[str, Any]", last).get("type")).endswith("_call_output")

    def planned(self, at: int, rules: ForkRules, edit: EditAsked | None, *, restores: bool) -> PlannedBranch:
        """Return the branch that goes on after `at` calls."""
        made = {call.raw: call for call in self.rollout.calls if call.raw is not None}
        new = [made[raw] for raw in range(at, len(self.calls)) if raw in made]
        kept = self._kept(at, rules)
        branch = BranchPoint(
            run=self.rollout.run,
            rollout=self.rollout.index,
            call=at,
            prefix=digest(self.calls[:at]),
            live_tools=rules.live_tools,
            restored=restores and bool(kept.by_file),
            sandboxes=bool(kept.sandboxes),
            edit=edit and self._edited(edit),
        )
        first = new[0].usage if new else None
        calls, cost = max(1, len(self.calls) - at), total_cost([made.cost for made in new])
        return PlannedBranch(self.rollout.query, branch, calls, first, cost)

    def _edited(self, asked: EditAsked) -> Edit:
        """Return an edit of the last call before a branch. Raises UsageError for one that the call has no place for."""
        items, edit = self.items(asked.call - 1), asked.edit
        which = f"{option('edit')}: model call {asked.call} of rollout {self.rollout.index}"
        if edit.message is not None:
            if not any(item.get("type") == "message" for item in items):
                raise UsageError(f"{which} said nothing: it has no `message` to edit")
            if asked.call == len(self.calls):
                raise UsageError(f"{which} is its answer: nothing comes after it")
            return edit
        tools = [item for item in items if item.get("type") == "function_call"]
        names = ", ".join(str(item.get("name")) for item in tools)
        if not tools:
            raise UsageError(f"{which} called no function tool: it has no `output` to edit")
        chosen = [item for item in tools if asked.tool in (None, item.get("name"))]
        if len(chosen) != 1:
            raise UsageError(f"{which} called {names}: `tool` names the one whose output it is")
        return edit.model_copy(update={"call_id": str(chosen[0].get("call_id"))})

    def _kept(self, at: int, rules: ForkRules) -> KeptState:
        """Return what a branch after `at` calls may take of the state outside from what was kept of it."""
        names = [made.snapshot for made in self.rollout.calls if made.raw == at and made.snapshot]
        return unpack_state(self.get(names[0]), names[0]) if names and not rules.live_tools else NOTHING_KEPT

    def why_not(self, at: int, rules: ForkRules, edit: EditAsked | None, *, restores: bool) -> str | None:
        """Return why the rollout cannot be taken up after `at` calls; None where it can."""
        if at > len(self.calls) or (at == len(self.calls) and not edit):
            return f"it has {counted(len(self.calls), 'model call')}, and that is past its end"
        kept = self._kept(at, rules)
        if restores and kept.by_file:
            return None
        types = {str(item.get("type")) for place in range(at) for item in self.items(place)}
        if f"{_AT_SERVER}_call" in types:
            return "code ran in a container of the provider's, whose state nothing holds"
        why, changed = None, self.rollout.state_changed
        if used := sorted(name for name in _NO_FUNCTION if f"{name}_call" in types):
            why = f"what its tool {used[0]} did is not in the record"
        elif self.rollout.trajectory.files and not kept.sandboxes:
            why = "its tools changed files in a sandbox"
        elif changed is not None and changed <= at:
            why = f"a tool changed its context, or files, after model call {changed}"
        if why is None or rules.live_tools or not at:
            return None
        instead = f"{_KEEPERS} in the agent's file would keep it"
        return f"{why}; {switch('live_tools')} runs its tools again; {self.rollout.snapshot_error or instead}"


def plan_fork(reader: RunReader, rules: ForkRules, *, restores: bool = False) -> ForkPlan:
    """Return the branches of a fork. `restores`: the agent's file puts back the state outside.

    Raises UsageError where there are none, NothingRankable, ArchiveDamaged.
    """
    edit = read_edit(rules.edit) if rules.edit else None
    if edit and rules.at is not None:
        raise UsageError(f"{option('at', rules.at)}: an edit says by its `call` where its branch begins; leave it out")
    all_left_out, planned = Counter[str](), list[PlannedBranch]()
    queries = _queries(reader, rules, edit)
    credit = cache(lambda: RunCredit(reader, judged_ranking(reader)))  # learns the judge from all groups, once
    for query in queries:
        left_out = Counter[str]()
        found = sorted(_recorded(reader, query, rules, left_out), key=lambda each: each.rollout.role == "anchor")
        recorded = {each.rollout.index: each for each in found}  # of one state a sample's, which may be trained
        for rollout, at, gain in _places(credit, query, recorded, rules, edit, left_out):
            each = recorded[rollout]
            if reason := each.why_not(at, rules, edit, restores=restores):
                left_out[f"rollout {rollout} cannot be taken up after model call {at}: {reason}"] += 1
            else:
                planned.append(each.planned(at, rules, edit, restores=restores)._replace(gain=gain))
        of = f"query {query.id}: " if len(queries) > 1 else ""
        all_left_out += Counter({of + why: count for why, count in left_out.items()})
    if not planned:
        none = f"no place of its rollouts is one of {option('at', rules.at or rules.places)}"
        why = next(iter(all_left_out), f"{none}; {option('at', '0')} makes fresh ones")
        raise UsageError(f"run {reader.info.id}: {why}")
    planned.sort(key=lambda each: -each.gain / each.calls)  # those of auto; all others stay as they are
    planned *= rules.branches
    if rules.budget is None:
        return ForkPlan(tuple(planned), all_left_out, None)
    before = branch_calls(reader)
    chosen = _within_budget(planned, rules.budget, before.longer)
    return ForkPlan(chosen, all_left_out, rules.budget + sum(before.made.values()))


def _queries(reader: RunReader, rules: ForkRules, edit: EditAsked | None) -> list[Query]:
    queries = list(reader.queries())
    if rules.query is not None and rules.query not in (ids := [query.id for query in queries]):
        raise UsageError(f"no query {quoted(rules.query)} in run {reader.info.id}{did_you_mean(rules.query, ids)}")
    if edit and (len(rules.rollouts) != 1 or (rules.query is None and len(queries) > 1)):
        raise UsageError(f"{option('edit')} is of one rollout: name it by {option('rollout')} (and {option('query')})")
    return [query for query in queries if rules.query in (None, query.id)]


def _recorded(reader: RunReader, query: Query, rules: ForkRules, left_out: Counter[str]) -> Iterator[_Recorded]:
    rollouts = {rollout.index: rollout for rollout in reader.group(query).rollouts}
    if lost := [index for index in rules.rollouts if index not in rollouts]:
        there = ", ".join(map(str, rollouts))
        raise UsageError(f"run {reader.info.id} has no rollout {lost[0]}; there are: {there}")
    for index, rollout in rollouts.items():
        if rules.rollouts and index not in rules.rollouts:
            continue
        if rollout.status == "failed" and not rules.rollouts:
            left_out[f"rollout {index} failed: {option('rollout', index)} takes it up all the same"] += 1
        elif query.redacted:
            left_out["the query was redacted, and its true text is not kept"] += 1
        elif reason := _never(rollout):
            left_out[f"rollout {index} cannot be taken up again: {reason}"] += 1
        else:
            name, texts = str(rollout.raw_calls), reader.blobs
            yield _Recorded(rollout, unpack_plain(texts.get(name), texts.get, texts.place(name)), texts.get)


def _never(rollout: Rollout) -> str | None:
    """Return why a rollout can be taken up nowhere; None where it can."""
    if rollout.origin:
        return f"another program made its calls ({rollout.origin}), and no fork can drive that"
    if not rollout.raw_calls:
        return "no model calls of it are recorded"
    if rollout.capture == "partial":
        return f"its record is not whole ({'; '.join(rollout.capture_gaps)})"
    if any(made.raw is None and made.error is None for made in rollout.calls):
        return "some of its model calls have no recorded reply"
    return None


class _Place(NamedTuple):
    """Where a rollout is taken up: after how many calls, and what that is expected to tell."""

    rollout: int
    call: int
    gain: float = 0.0


def _places(
    credit: Callable[[], RunCredit],
    query: Query,
    recorded: Mapping[int, _Recorded],
    rules: ForkRules,
    edit: EditAsked | None,
    left_out: Counter[str],
) -> Iterable[_Place]:
    """Return where rollouts of a query are taken up. But for numbers, equal states count once."""
    if edit:
        return [_Place(rollout, edit.call) for rollout in recorded]
    if isinstance(at := rules.places, tuple):
        return [_Place(rollout, place) for rollout in recorded for place in at]
    if at in {"auto", "parted"}:
        return _telling(credit(), query, recorded, rules, left_out)
    by_state = dict[str, _Place]()
    for rollout, each in recorded.items():
        for place in range(1, len(each.calls)):
            if at == "all" or each.follows_tools(place):
                by_state.setdefault(each.states[place], _Place(rollout, place))
    return by_state.values()


def _telling(
    credit: RunCredit, query: Query, recorded: Mapping[int, _Recorded], rules: ForkRules, left_out: Counter[str]
) -> Iterator[_Place]:
    """Yield where the ranked rollouts of a query part, or where a branch tells most."""
    paths = credit.paths(query)
    if isinstance(paths, str):
        which = f"{'rollout' if len(recorded) == 1 else 'rollouts'} {', '.join(map(str, recorded))}"
        left_out[f"{which}: the query has no {option('at', rules.places)}: {paths}"] += 1
        return
    place_of = {rollout.index: place for place, rollout in enumerate(paths.rollouts)}
    of = [place_of[index] for index in recorded if index in place_of]
    if rules.places == "parted":
        points = parted_points(paths.graph, of)
    elif rules.budget is None:
        raise UsageError(f"{option('at', 'auto')} spends a number of new model calls: give {option('budget', 'CALLS')}")
    else:
        points = auto_points(paths.graph, paths.margins, paths.spread, rules.budget, of) if of else []
    for point in points:
        yield _Place(paths.rollouts[point.rollout].index, point.call, point.gain)


def _within_budget(planned: Sequence[PlannedBranch], budget: int, longer: float) -> tuple[PlannedBranch, ...]:
    """Return the first branches, until the next would not fit. Raises UsageError where none fits.

    `longer`: how many times as many calls as their rollouts branches made before, as `resume` reckons, too.
    """
    left, chosen = float(budget), list[PlannedBranch]()
    for each in planned:
        left -= longer * each.calls
        if left < 0:
            break
        chosen.append(each)
    if not chosen:
        first = planned[0]
        why = "" if longer == 1 else ", for branches before made more than their rollouts had"
        raise UsageError(
            f"{option('budget', budget)}: the first branch, from rollout {first.branch.rollout} after model call "
            f"{first.branch.call}, is likely to make {counted(math.ceil(longer * first.calls), 'new call')}{why}; "
            f"{switch('dry_run')} without {option('budget')} lists the branches"
        )
    return tuple(chosen)
