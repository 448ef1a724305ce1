"""What an archived run may decide: keys, folders, agents; and what is kept of a run that is cut short.

A run folder is data from a stranger: it decides what this machine's record attests, or what today's user allows.
"""

import secrets
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from harness.archive import attestations
from harness.archive.checkpoints import RolloutKey, read_checkpoints
from harness.archive.comparison_reader import ComparisonInfo, ComparisonReader
from harness.archive.improve_folder import ImproveFolder
from harness.archive.reader import FolderReader, RunReader
from harness.archive.run_info import RunInfo, find_archived, list_runs
from harness.archive.run_state import CUT_SHORT, find_missing_work
from harness.archive.store import ComparisonStore, RunStore
from harness.core import errors
from harness.core.branch_point import BranchPoint
from harness.core.settings import SETTINGS, Settings
from harness.core.settings_sources import load
from harness.core.user_files import is_file
from harness.endpoints.credentials import Credentials
from harness.pipeline.run_environment import RunEnvironment
from harness.rollouts.branches import branch_start, gone_on
from harness.rollouts.checkpoints import Attempted, attempted_before
from harness.rollouts.loading import LoadedAgent, is_plain_name, load_agent


@dataclass(frozen=True)
class Trust:
    """What one archived run may decide in this command."""

    run: str
    credentials: Credentials
    attestation: attestations.Attestation | None
    """This machine's own record, where the run was made here."""
    trust_archive: bool
    """Whether today's user trusts what the archive names, its code excepted (--trust-archive)."""

    def checked(self, settings: Settings, changes: Collection[str] = ()) -> Settings:
        """Return settings under which the run's agent may run. Raises UsageError for a power only the run gives."""
        given = [
            f"{what} ({errors.option(name)})"
            for name, what in _POWERS.items()
            if name not in changes and getattr(settings, name) != SETTINGS[name].default
        ]
        if not given or self.is_given:
            return settings
        raise errors.UsageError(
            f"run {errors.quoted(self.run)}, of which this machine has no record, {' and '.join(given)}: "
            f"{errors.switch('trust_archive')} lets it"
        )

    def replayed(self, settings: Settings) -> Settings:
        """Return settings out of the run for what takes the tools' outputs from the run: no folder is read for it."""
        return self.without_patterns(settings if self.is_given else replace(settings, corpus=None))

    def without_patterns(self, settings: Settings) -> Settings:
        """Return settings out of the run without --redact: a stranger's regular expression may take for ever."""
        return settings if self.is_given else replace(settings, redact=())

    def priced(self, settings: Settings, changes: Mapping[str, Any]) -> Settings:
        """Return settings out of the run under `changes`: only today's user's own prices hold back what is spent."""
        if self.is_given:
            return settings
        return load(asdict(settings) | {name: changes.get(name) or SETTINGS[name].default for name in _PRICES})

    def check_queries(self, reader: RunReader) -> None:
        """Raise UsageError where a run that was made here no longer holds the queries that it was made with."""
        if self.trust_archive or self.attestation is None or attestations.attests_queries(self.attestation, reader):
            return
        raise errors.UsageError(
            f"the queries of run {errors.quoted(self.run)} are not those that this machine's record of the run is of: "
            f"{errors.switch('trust_archive')} runs the agent on them"
        )

    def check_branches(self, branches: Mapping[str, Sequence[BranchPoint]], agent: LoadedAgent) -> None:
        """Raise UsageError where an agent cannot be given what branches begin with, or should not be."""
        if branches and not agent.replayable:
            raise errors.UsageError(f"agent {agent.name!r} says REPLAYABLE = False: no branch can be taken up with it")
        every = [branch for of_query in branches.values() for branch in of_query]
        if agent.restore is None and any(branch.restored for branch in every):
            raise errors.UsageError(
                f"agent {agent.name!r} has no restore(context, state), which its branches begin with"
            )
        if not self.is_given and any(branch.restored or branch.sandboxes for branch in every):
            raise errors.UsageError(
                f"run {errors.quoted(self.run)}, of which this machine has no record, would hand what is in it to "
                f"`restore` of the agent's file, or to its sandbox: {errors.switch('trust_archive')} lets it"
            )

    @property
    def is_given(self) -> bool:
        """Whether the run was made here, or today's user trusts what the archive names."""
        return self.attestation is not None or self.trust_archive


_PRICES = ("prices", "price_by_name")
_POWERS = {
    "instructions": "gives its agent other instructions",
    "corpus": "lets its agent read a folder",
    "approve": "approves calls of its agent's tools",
    "upload_traces": "uploads traces",
    "redact": "has regular expressions, which may take for ever",
}
"""Settings that give an agent something of this machine's: no archive decides them for whoever opens it."""


def as_in_run_json(settings: Settings, run_json: Settings) -> Settings:
    """Return a ranking's settings with the powers of run.json, which is what this machine's record attests."""
    return replace(settings, **{name: getattr(run_json, name) for name in _POWERS})


def trust_in(
    reader: FolderReader, environ: Mapping[str, str], *addresses: object, trust_archive: bool = False
) -> Trust:
    """Return what a run may decide in a command whose user named `addresses`: each a URL, several URLs, or None."""
    attestation = attestations.read_attestation(reader, environ)
    attested = attestation.addresses if attestation else ()
    credentials = Credentials.naming(environ, *addresses).also_to(attested, every_origin=trust_archive)
    return Trust(reader.id, credentials, attestation, trust_archive)


def improvement_made_here(runs_dir: Path, key: str, environ: Mapping[str, str]) -> ImproveFolder | None:
    """Return the newest improvement with a key of which this machine made the first run, if there is any.

    Raises UsageError, ArchiveDamaged.
    """
    for folder in reversed(ImproveFolder.alike(runs_dir, key)):
        for run in list_runs(folder.runs)[:1]:
            with RunReader(run) as reader:
                if trust_in(reader, environ).is_given:
                    return folder
    return None


@contextmanager
def attested(
    store: RunStore | ComparisonStore, run_env: RunEnvironment, agent: LoadedAgent | None = None
) -> Generator[None]:
    """Note on this machine that a run or comparison is made here, and by which agent; forget it if it is taken away."""
    named = attestations.AgentOrigin(agent.word, agent.file, agent.here) if agent else None
    origin = named or attestations.AgentOrigin(here=Path.cwd())
    key, to = secrets.token_hex(16), archived_addresses(store.reader.info)
    write = partial(attestations.attest, store.reader, run_env.environ, to, origin, checkpoint_key=key)
    record: attestations.Attestation | None = None
    try:
        record = write()
        if isinstance(store, RunStore):
            store.checkpoint_key = key
    except errors.CannotWrite as exc:
        run_env.progress.note(f"{exc}; `resume` and `rescore` of this run will ask where keys may go")
    try:
        yield
    finally:
        if not store.folder.is_dir():
            attestations.withdraw(store.reader.id, run_env.environ)
        elif record:
            with suppress(errors.HarnessError):
                if not attestations.attests_queries(record, store.reader):  # they came one by one
                    write()


def attempts_before(
    store: RunStore, missing: Mapping[str, Sequence[int]], note: Callable[[str], None]
) -> Callable[[str, int], Attempted | None]:
    """Return what finds what the store holds of a missing rollout that was cut off. Raises ArchiveDamaged."""

    def was_cut_off(key: RolloutKey) -> bool:
        place = store.reader.index.rollouts.get(key[0], {}).get(key[1])
        return key[1] in missing.get(key[0], ()) and (place is None or place.kind in CUT_SHORT)

    kept, strange = read_checkpoints(store.folder, was_cut_off, store.checkpoint_key) if missing else ({}, ())
    if strange:
        note(f"{errors.counted(len(strange), 'rollout')} begin anew: what was kept is not of this machine")

    def before(query: str, index: int) -> Attempted | None:
        branch = store.reader.info.branch(query, index)
        start = branch_start(store.reader, query, branch) if branch else None
        anew = start and start.attempted()
        if (attempt := kept.get((query, index))) is None:
            return anew
        try:
            had = attempted_before(attempt, store.reader.blobs.get)
        except errors.ArchiveDamaged as exc:  # the texts may have been lost with the power
            note(f"rollout {index} of query {query} begins anew: what was kept of it cannot be read ({exc})")
            return anew
        if start:
            had = gone_on(start, had)
        return had if had.calls and not had.is_bound else anew

    return before


def attest_judge(trust: Trust, run_env: RunEnvironment, urls: Iterable[str | None]) -> None:
    """Write down where today's user let a run that was made here be judged, so that `resume` goes on there."""
    if trust.attestation is None or trust.trust_archive:
        return
    allowed = [url for url in urls if url and trust.credentials.may_go_to(url)]
    try:
        attestations.attest_addresses(trust.attestation, run_env.environ, allowed)
    except errors.CannotWrite as exc:
        run_env.progress.note(str(exc))


def archived_addresses(info: RunInfo | ComparisonInfo) -> list[str]:
    """Return every address that a run's run.json names, or a comparison's compare.json."""
    judge, endpoint = info.judge, (info.endpoint if isinstance(info, RunInfo) else None) or {}
    places: list[JsonValue] = [info.settings.get("base_url"), info.settings.get("judge_base_url")]
    places += [endpoint.get("base_url"), judge.get("base_url")]
    jurors = judge.get("jurors")
    places += [juror.get("base_url") for juror in jurors if isinstance(juror, dict)] if isinstance(jurors, list) else []
    urls = [url for place in places for url in (place if isinstance(place, list) else [place])]
    return list(dict.fromkeys(url for url in urls if isinstance(url, str) and url))


def agent_of_run(reader: RunReader, environ: Mapping[str, str], asked: str) -> LoadedAgent:
    """Find the agent that made a run here, else one that the working folder has under its name. Raises UsageError."""
    info, attestation, here = reader.info, attestations.read_attestation(reader, environ), Path.cwd()
    word, folder = info.agent_word, reader.folder
    if word is None:
        raise errors.UsageError(
            f"run {info.id} does not say where its agent is: name it with {errors.call(asked, folder, agent='NAME')}"
        )
    try:
        if attestation and attestation.agent_word == word and attestation.here:
            return _made_here(attestation, word, attestation.here, here)
        if is_plain_name(word):
            return load_agent(word, here)
    except errors.UsageError as exc:
        to_type = errors.call(asked, folder, agent="path.py:attr")
        loads_not = f"the run's agent cannot be loaded: {exc}"
        raise errors.UsageError(errors.goes_on(loads_not, f"name it with {to_type}")) from None
    place = Path(word.rpartition(":")[0] or word)
    inside = not place.is_absolute() and ".." not in place.parts
    # the archive's word only where it names a file of the working folder's
    suggested = word if inside and place.suffix == ".py" and is_file(here / place) else "path.py:attr"
    raise errors.UsageError(
        f"run {info.id} names its agent as {errors.quoted(word)}, and this machine has no record of having made "
        "the run (it came from elsewhere, or its run.json has changed). No code is loaded because an archive names it; "
        f"if you know the agent, name it: {errors.call(asked, folder, agent=suggested)}"
    )


def _made_here(attestation: attestations.Attestation, word: str, then: Path, here: Path) -> LoadedAgent:
    """Load the very file, module or name that made the run. A name whose folder has gone is looked up in `here`."""
    place, colon, attr = word.rpartition(":") if ":" in word[2:] else (word, "", "")
    if place.endswith(".py") and attestation.agent_file:
        return replace(load_agent(f"{attestation.agent_file}{colon}{attr}", then), word=word)
    from_then = then.is_dir() or not is_plain_name(word)
    return load_agent(word, then if from_then else here, file=attestation.agent_file)


def what_is_kept(folder: Path | None, **options: object) -> str:
    """Return what became of a run that was cut short, and the command that goes on with it, with these options."""
    if folder is None:
        return "Nothing had begun"
    kind = find_archived(str(folder), folder.parent).kind
    if kind == "improvement":
        return f"All that was bought is kept in {folder}; {errors.call('resume', folder)} does what is missing"
    if kind == "comparison":
        with ComparisonReader(folder) as comparison:
            verdicts = sum(verdict.status == "ok" for verdict in comparison.verdicts())
        kept = errors.counted(verdicts, "verdict is kept", "verdicts are kept")
        if not verdicts:  # the sides' rollouts are in runs of their own
            kept = "No verdict is bought yet; what was rolled out is in the sides' runs, and the comparison"
        return f"{kept} in {folder}; {errors.call('resume', folder)} does what is missing"
    with RunReader(folder) as reader:
        missing, newest = find_missing_work(reader), reader.newest_ranking()
        begun = newest if newest and not newest.finished else None
        if missing.nothing and begun is None:
            return f"{folder} is whole, and no ranking in it was cut short"
        if begun and not missing.rollouts and (begun.head.free or len(reader.heads()) > 1):
            queries = errors.counted(len(reader.index.queries), "query", "queries")
            whole = f"{len(begun.groups) - begun.incomplete:,} of {queries}"
            if begun.head.free:
                return f"The new ranking has {whole} in full, and is kept in {folder}; rank again for the others"
            kept = f"The new ranking has {whole} in full; it and all verdicts that were bought are kept in {folder}"
        else:
            ended = _count_statuses(reader)
            rollouts = errors.counted(ended.total(), "rollout that was", "rollouts that were")
            kept = f"{ended['ok']:,} of {rollouts} begun ended well; all are kept in {folder}"
            lacking = errors.counted(missing.count, "rollout and the ranking are", "rollouts and the ranking are")
            kept += f"; {lacking if missing.count else 'the ranking is'} missing"
    return f"{kept}; {errors.call('resume', folder, **options)} does what is missing"


def _count_statuses(reader: RunReader) -> Counter[str]:
    return Counter(place.status for group in reader.index.rollouts.values() for place in group.values())


@contextmanager
def one_error(store: RunStore | ComparisonStore, *, new: bool) -> Generator[None]:
    """Raise the first of a group of errors, and say what is kept; a new run that cost nothing is taken away."""
    try:
        yield
    except* errors.HarnessError as group:  # of any kinds: several clauses would raise a group again
        error = errors.first_error(group)
        if isinstance(error, errors.CannotWrite):
            resume = errors.call("resume", store.folder)
            raise errors.CannotWrite(f"{error}; {resume} goes on once that is mended") from None
        if new and store.is_empty:
            store.discard()
            raise error from None
        if not isinstance(error, errors.Refused):
            raise error from None
        kept = what_is_kept(store.folder)
        if isinstance(store, RunStore):
            with RunReader(store.folder) as reader:  # the store's own knows less than it wrote
                if "ok" in _count_statuses(reader):
                    kept += f", {errors.call('rescore', store.folder, judge_model='MODEL')} takes another judge"
        raise type(error)(f"{error}{'' if str(error).endswith('?') else '.'} {kept}") from None
