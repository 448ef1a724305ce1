"""`run.json`, the file that makes a folder a run; where things are in `runs/`, and which run the user's word names."""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, cast, get_args

from pydantic import Field, JsonValue, model_validator

from harness.archive.lines import LONGEST, check_version, parse
from harness.archive.record_faults import settings_faults
from harness.archive.run_files import InfoFile, append_to_file, read_file, runs_in
from harness.archive.typed_records import check_rubric_text, checked
from harness.core import errors
from harness.core.branch_point import BranchPoint
from harness.core.cost import Cost, cost
from harness.core.records import Record, Usage, is_empty, is_none
from harness.core.settings import Api

RUN_FILE = "run.json"
COMPARISON_FILE = "compare.json"
IMPROVE_FILE = "improve.json"
"""A folder with it is an improvement: it holds runs and comparisons of its own."""
SEGMENTS = ("blobs", "queries", "rollouts", "verdicts", "rankings", "probes", "batches", "checkpoints")
"""The folders of a run that hold files of records."""
COMPARISON_SEGMENTS = ("blobs", "verdicts", "comparisons")
"""The same of a comparison."""
ASIDE = "damaged"
"""The folder of a run into which a repair moves damaged lines."""
LOCK = "run.lock"
PAGE = "report.html"
PAGES = "report"
"""The folder with a page a query, beside the page of a run of many queries."""
LABELS = "labels.jsonl"
"""Which of two answers is better, as people say: one pair a line, as `doctor --judge --pairs` reads them."""
Kind = Literal["run", "comparison", "improvement"]
_KINDS: dict[str, Kind] = {RUN_FILE: "run", COMPARISON_FILE: "comparison", IMPROVE_FILE: "improvement"}
"""What the file of a folder makes the folder; the first one counts."""
_TIME = re.compile(r"[0-9]{8}T[0-9]{6}")
_TIME_LENGTH = len("20260721T140320")


class Archived(NamedTuple):
    """A folder of the archive, and what it is."""

    folder: Path
    kind: Kind


def new_run_id(agent: str, at: datetime, salt: str) -> str:
    """Return `<time>-<agent>-<short hash>`. `salt` keeps two runs of one second apart."""
    name = "".join(c if c.isalnum() or c in "-_" else "-" for c in agent).strip("-") or "agent"
    short = hashlib.sha256(f"{at.isoformat()} {agent} {salt}".encode()).hexdigest()[:6]
    return f"{at:%Y%m%dT%H%M%S}-{name[:40]}-{short}"


def list_archived(runs_dir: Path) -> list[Archived]:
    """Return all that the archive holds, oldest first; a link is none (see `linked_runs`). Raises UsageError."""
    files, _ = _listed(runs_dir)
    seconds = {folder: _second(folder.name, file.time_ns) for folder, file in files.items()}
    of_one_second = Counter(seconds.values())

    def begun(folder: Path) -> tuple[str, float, int, str]:
        """Return when a run began: by its name, and, of several of one second, by its file; and what orders others."""
        second, (name, time_ns) = seconds[folder], files[folder]
        exact = _created_at(folder / name) if of_one_second[second] > 1 else 0.0
        return second, exact, time_ns, folder.name

    return [Archived(folder, _KINDS[files[folder].name]) for folder in sorted(files, key=begun)]


def _second(name: str, time_ns: int) -> str:
    """Return when a run began as its name says, or else as the time of its file does."""
    return name[:_TIME_LENGTH] if _TIME.match(name) else f"{datetime.fromtimestamp(time_ns / 1e9, UTC):%Y%m%dT%H%M%S}"


def _created_at(path: Path) -> float:
    """Return when a run began as its file says, in seconds; 0 where that cannot be read."""
    with suppress(errors.ArchiveDamaged, ValueError, OverflowError):
        return datetime.fromisoformat(str(parse(read_file(path, LONGEST)).get("created_at"))).timestamp()
    return 0.0


def list_runs(runs_dir: Path) -> list[Path]:
    """Return the folders of all runs, oldest first; a link is none (see `linked_runs`). Raises UsageError."""
    return [folder for folder, kind in list_archived(runs_dir) if kind == "run"]


def list_forks(run: str, runs_dir: Path) -> list[str]:
    """Return the ids of the forks of a run, oldest first; runs that cannot be read are left out. Raises UsageError."""
    forks = list[str]()
    for folder in list_runs(runs_dir):
        with suppress(errors.HarnessError, OSError):
            if b'"branches"' in read_file(folder / RUN_FILE, LONGEST) and run in (info := read_info(folder)[0]).parents:
                forks.append(info.id)
    return forks


def list_comparisons(runs_dir: Path) -> list[Path]:
    """Return the folders of all comparisons, oldest first; a link is none. Raises UsageError."""
    return [folder for folder, kind in list_archived(runs_dir) if kind == "comparison"]


def linked_runs(runs_dir: Path) -> list[errors.ArchiveDamaged]:
    """Return what is to be said of each link in a folder of runs: nobody follows such a link. Raises UsageError."""
    return [_linked(path) for path in _listed(runs_dir)[1]]


def find_run(word: str, runs_dir: Path) -> Path:
    """Return the run that `word` names. Raises UsageError for what is none, and as `find_archived` does."""
    folder, kind = find_archived(word, runs_dir, only_runs=True)
    if kind != "run":
        runs = list_runs(runs_dir)
        newest = f"; the newest is {runs[-1].name}" if runs else ""
        shown = errors.call("show", folder.name if folder.parent == runs_dir else str(folder))
        what = f"{errors.on_a_line(folder.name)} is {a_kind(kind)}, not a run: name a run{newest}"
        raise errors.UsageError(f"{what}. {shown} shows the {kind}")
    return folder


def find_archived(word: str, runs_dir: Path, *, only_runs: bool = False) -> Archived:
    """Return what `word` names: `last` for the newest, an id, an unambiguous prefix, or a path.

    With `only_runs`, `last` passes over all that is no run. Raises UsageError where it names none or several;
    ArchiveDamaged where it is the id of a link.
    """
    for name, kind in _KINDS.items():
        if _holds(Path(word), name):
            return Archived(Path(word), kind)
    stored = list_archived(runs_dir)
    if word == "last":
        newest = next((archived for archived in reversed(stored) if archived.kind == "run" or not only_runs), None)
        if newest is None:
            raise errors.UsageError(
                f"no run in {errors.on_a_line(runs_dir)}/ yet; make one with {errors.call('run', agent='search')}"
            )
        return newest
    matching = [a for a in stored if a.folder.name == word] or [a for a in stored if a.folder.name.startswith(word)]
    if not matching and (link := runs_dir / word) in _listed(runs_dir)[1]:
        raise _linked(link)
    if not matching:
        hint = errors.did_you_mean(word, [folder.name for folder, _ in stored])
        unknown = f"no run {errors.quoted(word)} in {errors.on_a_line(runs_dir)}/{hint}"
        raise errors.UsageError(errors.goes_on(unknown, f"{errors.call('ls')} lists them"))
    if len(matching) > 1:
        names = ", ".join([*(folder.name for folder, _ in matching[:4]), *(["…"] if len(matching) > 4 else [])])
        raise errors.UsageError(f"{errors.quoted(word)} fits {len(matching)} runs: {names}; say more of it")
    return matching[0]


def a_kind(kind: Kind) -> str:
    """Return what kind of thing a folder is, with its article."""
    return f"an {kind}" if kind == "improvement" else f"a {kind}"


def read_labels(folder: Path) -> str | None:
    """Return the text of the file of labels, or None if there is none. Raises ArchiveDamaged if it cannot be read."""
    path = folder / LABELS
    if not _holds(folder, LABELS):
        return None
    try:
        return read_file(path, LONGEST).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise errors.ArchiveDamaged(f"{path}: it is not UTF-8 text") from None


def append_label(folder: Path, line: str) -> None:
    """Append a line to a run's file of labels. Raises CannotWrite, ArchiveDamaged if no plain file stands there."""
    append_to_file(folder / LABELS, line)


def _holds(folder: Path, name: str) -> bool:
    try:
        (folder / name).lstat()
    except (OSError, ValueError):  # a word may be too long to be a path, or hold a NUL
        return False
    return True


def _listed(runs_dir: Path) -> tuple[dict[Path, InfoFile], list[Path]]:
    try:
        return runs_in(runs_dir, tuple(_KINDS))
    except (FileNotFoundError, NotADirectoryError):
        return {}, []
    except OSError as exc:
        raise errors.UsageError(f"cannot list the runs in {runs_dir}/: {exc.strerror}") from None


def _linked(path: Path) -> errors.ArchiveDamaged:
    return errors.ArchiveDamaged(f"{path}: a link stands where a run should be; name the folder that it leads to")


OLDEST_READABLE = "0.2.0"
"""The oldest version of the harness whose runs and comparisons this one reads."""
_VERSION = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})")
T = TypeVar("T")


class WayFound(Record):
    """What the model was asked before the first rollout, so that samples differ (`--vary auto`, `instructions=4`)."""

    asked: str
    """The text of --vary."""
    found: tuple[str, ...] = ()
    """Why ways do not work, in words."""
    usage: Usage
    price_usd: float | None
    price_usd_at_least: float | None = Field(default=None, exclude_if=is_none)

    @property
    def cost(self) -> Cost:
        """What that cost."""
        return cost(self.price_usd, self.price_usd_at_least)

    @property
    def words(self) -> str:
        """What people read of it, beside what was asked."""
        return "; ".join((f"{errors.counted(self.usage.requests, 'call')} before the first rollout", *self.found))


class RunInfo(Record):
    """`run.json`: written once, when the run begins. A folder is a run if and only if it holds one."""

    schema_version: int
    id: str
    created_at: datetime
    agent: str
    agent_file: str | None = None
    settings: Mapping[str, JsonValue]
    judge: Mapping[str, JsonValue]
    """The judge as resolved when the run began: model, base_url, api."""
    offline: bool
    """The agent's model, or the judge, is the embedded one: the ranks say nothing of any LLM."""
    agent_offline: bool = False
    """The agent's own part of `offline`: it stays so whoever judges the run later."""
    agent_api: Literal["responses", "chat"] | None = None
    """The API that the agent's models were spoken to by; None where they were the agent's own, or it is not known."""
    versions: Mapping[str, str]
    agent_word: str | None = None
    """What --agent was given, so that `resume` finds the agent again; None for one given from Python."""
    endpoint: Mapping[str, JsonValue] | None = None
    """Where the agent's models were: base_url (None: OpenAI's own), api. None where it ran on none of ours."""
    rubric: str | None = None
    """The rubric's label when the run began."""
    rendering: Annotated[int, Field(ge=1, le=999)] = 1
    """The way in which transcripts were written when the run began (harness.transcripts)."""
    instructions: str | None = None
    """The text of --instructions; None without that, and where a key or a pattern of --redact stands in it."""
    queries: int | None = None
    """How many queries were known, and written down, when the run began; None where they came as a stream."""
    accepted: tuple[str, ...] = ()
    """What the user was warned of and went on with."""
    rubric_text: str | None = None
    """The rubric's own text, whole; None where a key or a pattern of --redact stands in it."""
    way_found: WayFound | None = Field(default=None, exclude_if=is_none)
    """None where nothing was asked before the first rollout."""

    branches: Mapping[str, tuple[BranchPoint, ...]] = Field(default_factory=dict, exclude_if=is_empty)
    """Of a fork, by query: the rollouts that are taken up again. Their indices follow those of all others."""
    branch_calls: int | None = Field(default=None, exclude_if=is_none)
    """How many new model calls the branches may make; one that does not fit is not begun. None: as many as they ask."""

    _text_has_its_fingerprint = model_validator(mode="after")(check_rubric_text)

    def wanted(self, query: str) -> int:
        """Return how many rollouts of a query are to come; 0 where that is not known."""
        n = self.settings.get("n")
        return n + len(self.branches.get(query, ())) if isinstance(n, int) else 0

    @property
    def parents(self) -> tuple[str, ...]:
        """The ids of the runs whose rollouts its branches took up; none if it is no fork."""
        taken = dict.fromkeys(branch.run for branches in self.branches.values() for branch in branches)
        return tuple(run for run in taken if run != self.id)

    def branch(self, query: str, index: int) -> BranchPoint | None:
        """Return where a rollout is taken up from; None for one that begins by itself."""
        of_query, n = self.branches.get(query, ()), self.wanted(query) - len(self.branches.get(query, ()))
        return of_query[index - n] if n <= index < n + len(of_query) else None


def run_faults(info: RunInfo) -> Iterator[str]:
    """Yield what is wrong with `run.json`."""
    yield from settings_faults(info)
    endpoint = info.endpoint or {}
    if not isinstance(endpoint.get("base_url"), str | None):
        yield "endpoint.base_url: an address is expected"
    if endpoint.get("api") not in {None, *get_args(Api)}:
        yield f"endpoint.api: one of {', '.join(get_args(Api))} is expected"


def read_info(folder: Path) -> tuple[RunInfo, str]:
    """Return `run.json` and the sha256 (hex) of its bytes. Raises ArchiveDamaged, NeedsUpgrade, TooOld."""
    return read_info_file(folder / RUN_FILE, "run", RunInfo.model_validate, run_faults)


def read_info_file(
    path: Path, whose: str, validate: Callable[[Any], T], faults_of: Callable[[T], Iterator[str]] | None = None
) -> tuple[T, str]:
    """Return what a file holds that is written once, with the sha256 (hex) of its bytes. Raises as `read_info` does."""
    data = read_file(path, LONGEST)
    why = f"It holds the {whose}'s settings and is written once: no repair can make it anew; restore it from a copy"
    try:
        members = parse(data)
        check_version(members.get("schema_version"), path)
        versions = members.get("versions")
        version = cast("dict[str, object]", versions).get("arena-harness") if isinstance(versions, dict) else None
        stated = _VERSION.match(version) if isinstance(version, str) else None
        if stated and tuple(map(int, stated.groups())) < tuple(map(int, OLDEST_READABLE.split("."))):
            raise errors.TooOld(path, stated[0], OLDEST_READABLE)
        return checked(members, validate, path, faults_of), hashlib.sha256(data).hexdigest()
    except ValueError as exc:
        raise errors.ArchiveDamaged(f"{path}: Invalid JSON: {exc}. {why}") from None
    except errors.ArchiveDamaged as exc:
        raise errors.ArchiveDamaged(f"{exc}. {why}") from None
