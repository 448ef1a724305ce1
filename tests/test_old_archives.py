"""What the commands of 0.2.0 said of archives made by 0.2.0, they say now; fields may be added.

tests/data/golden/README.md tells how the archives and what is expected of them were made.
"""

import hashlib
import json
import math
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.archive.run_info import OLDEST_READABLE
from tests.nursery import Born, Done, Nursery

DATA = Path(__file__).parent / "data"
GOLDEN = DATA / "golden"
EXPECTED = GOLDEN / "expected"
ENVIRONMENT = {"TIKTOKEN_CACHE_DIR": ""}
"""Tokens are estimated, whatever encodings this machine has."""

LONG = 240
"""A text longer than this is compared by its hash."""

ID = re.compile(r"\d{8}T\d{6}-(?:\w+-)?[0-9a-f]{6}")
"""The id of a run or of a ranking; one that no archive had is new, and so another one every time."""


@dataclass(frozen=True)
class Case:
    """Commands to be run beside copies of archives."""

    archives: tuple[str, ...]
    before: tuple[dict[str, Any], ...]
    """What is done to the files first."""
    steps: tuple[dict[str, Any], ...]
    """Each with `run` (the command), `code`, and `json` if it printed any."""
    together: bool
    """The commands are run at once, each beside copies of its own; else one after the other."""

    @classmethod
    def read(cls, name: str) -> "Case":
        told = json.loads((EXPECTED / f"{name}.json").read_text("utf-8"))
        return cls(tuple(told["archives"]), tuple(told["before"]), tuple(told["steps"]), told["together"])


def folder_of(archive: str) -> Path:
    """Return the run's own folder in the archive."""
    (found,) = (p for p in (GOLDEN / archive).iterdir() if p.is_dir())
    return found


def id_of(archive: str) -> str:
    return json.loads((folder_of(archive) / "run.json").read_text("utf-8"))["id"]


def lay_out(case: Case, at: Path) -> Path:
    """Put copies of the archives, of their agents and of what went into them where the commands are run."""
    at.mkdir()
    for path in [*GOLDEN.glob("agents/*.py"), *GOLDEN.glob("inputs/*")]:
        shutil.copy(path, at)
    for seconds, archive in enumerate(case.archives):
        copy = at / "runs" / id_of(archive)
        shutil.copytree(folder_of(archive), copy)
        # Runs of the same second are listed by the time of their file, and a checkout writes files in any order.
        os.utime(copy / "run.json", (seconds, seconds))
    for change in case.before:
        harm(at, **change)
    return at


def harm(at: Path, file: str, *, line: int = 0, cut: int = 0, old: str = "", new: str = "") -> None:
    """Change a file: a text in it, one character of a line, its last bytes, or all of it."""
    path = min(at.glob(file))
    lines = path.read_bytes().splitlines(keepends=True)
    if old:
        path.write_text(path.read_text("utf-8").replace(old, new), "utf-8")
    elif line:
        one = lines[line - 1]
        middle = len(one) // 2
        lines[line - 1] = one[:middle] + (b"x" if one[middle : middle + 1] != b"x" else b"y") + one[middle + 1 :]
        path.write_bytes(b"".join(lines))
    elif cut:
        path.write_bytes(b"".join(lines)[:-cut])
    else:
        path.unlink()


def played(case: Case, nursery: Nursery, at: Path) -> Iterator[tuple[dict[str, Any], Done, Path]]:
    """Run the commands of a case; give each with how it ended and where it was run."""

    def start(step: dict[str, Any], folder: Path) -> Born:
        return nursery.start(step["run"], folder, ENVIRONMENT)

    if case.together:
        folders = [lay_out(case, at / str(number)) for number, _ in enumerate(case.steps)]
        born = [start(step, folder) for step, folder in zip(case.steps, folders, strict=True)]
        for step, one, folder in zip(case.steps, born, folders, strict=True):
            yield step, nursery.wait(one), folder
    else:
        folder = lay_out(case, at / "0")
        for step in case.steps:
            yield step, nursery.wait(start(step, folder)), folder


def parsed(out: str) -> Any:
    """Return the JSON that was printed: one value, or a list of those that stand on the lines; None of other text."""
    try:
        return json.loads(out)
    except json.JSONDecodeError:
        pass
    try:
        return [json.loads(line) for line in out.splitlines()] or None
    except json.JSONDecodeError:
        return None


def by_name(told: Any) -> Any:
    """Return a list of things that have names as an object: there may be more of them one day."""
    return {one["name"]: one for one in told}


def statuses(told: Any) -> Any:
    """Return the status of each check of `doctor`; what it found is this machine's."""
    return {one["name"]: one["status"] for one in told}


def fields(told: Any) -> Any:
    """Return which fields the schema of each kind of line has, as an object: there may be more of them one day."""
    kinds = told if "$schema" not in told else {told["title"]: told}
    return {kind: dict.fromkeys(properties(schema), True) for kind, schema in kinds.items()}


def properties(schema: Any) -> list[str]:
    return [name for part in [*schema.get("allOf", ()), schema] for name in part.get("properties", ())]


def located(told: Any) -> Any:
    """Return agents by name, without the folder that they were found in."""
    return {name: one | {"file": Path(one["file"]).name} for name, one in by_name(told).items()}


VIEWS: dict[str, Callable[[Any], Any]] = {"agents": located, "doctor": statuses, "rubric": by_name, "schema": fields}


def steady(told: Any, at: Path, known: frozenset[str]) -> Any:
    """Return JSON without what is another every time, and with long texts as their hashes."""
    if isinstance(told, dict):
        return {k: steady(v, at, known) for k, v in told.items()}
    if isinstance(told, list):
        return [steady(v, at, known) for v in told]
    if not isinstance(told, str):
        return told
    text = ID.sub(lambda m: m[0] if m[0] in known else "<new>", told.replace(str(at), "<here>"))
    if len(text) <= LONG:
        return text
    return f"{text[:60]}… {len(text)} characters, SHA-256 {hashlib.sha256(text.encode()).hexdigest()}"


def comparable(done: Done, args: list[str], case: Case, at: Path) -> Any:
    """Return what a command printed as JSON, made comparable; None if it printed none."""
    told = parsed(done.out)
    if told is None:
        return None
    known = {id_of(a) for a in case.archives}
    known |= {p.stem for a in case.archives for p in folder_of(a).glob("rankings/*.jsonl")}
    view = VIEWS.get(args[0], lambda plain: plain)
    return steady(view(told) if isinstance(told, list) or args[0] == "schema" else told, at, frozenset(known))


def differences(then: Any, now: Any, where: str = "") -> Iterator[str]:
    """Tell what was there and is not, or is another; what is new in an object is none."""
    if isinstance(then, dict) and isinstance(now, dict):
        for key, value in then.items():
            if key in now:
                yield from differences(value, now[key], f"{where}/{key}")
            else:
                yield f"{where}/{key} is gone"
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for number, (one, other) in enumerate(zip(then, now, strict=True)):
            yield from differences(one, other, f"{where}/{number}")
    elif not same(then, now):
        yield f"{where} was {then!r}, is {now!r}"


def same(then: Any, now: Any) -> bool:
    if isinstance(then, float) and isinstance(now, float):
        return math.isclose(then, now, rel_tol=1e-6, abs_tol=1e-6)  # linear algebra differs from machine to machine
    return type(then) is type(now) and then == now


def check(name: str, nursery: Nursery, at: Path) -> None:
    """Run the commands of a case: exit codes are the same, and what was printed is in what is printed now."""
    case = Case.read(name)
    for step, done, folder in played(case, nursery, at):
        said = f"harness {' '.join(step['run'])}"
        assert "Traceback" not in done.err, f"{said}\n{done.err}"
        assert done.code == step["code"], f"{said} ended with {done.code}, not with {step['code']}\n{done.err}"
        if "json" in step:
            found = list(differences(step["json"], comparable(done, step["run"], case, folder)))
            assert not found, "\n".join([said, *found[:20]])


def cases(fact: str) -> pytest.MarkDecorator:
    """Run a test for each file of expectations whose name begins with this word."""
    names = sorted(p.stem for p in EXPECTED.glob(f"{fact}-*.json"))
    return pytest.mark.parametrize("name", names or [f"{fact}-none"])


def test_the_oldest_version_whose_runs_are_read_is_0_2_0_and_made_the_golden_ones():
    makers = {json.loads(path.read_text("utf-8"))["versions"]["arena-harness"] for path in GOLDEN.glob("*/*/run.json")}
    assert makers == {"0.2.0"} == {OLDEST_READABLE}


@pytest.mark.few(5)
@cases("shown")
def test_an_old_run_is_shown_measured_and_found_whole_as_it_was(name: str, nursery: Nursery, tmp_path: Path):
    check(name, nursery, tmp_path)


@pytest.mark.few(4)
@cases("rescored")
def test_an_old_run_is_rescored_to_the_same_ranks_from_the_same_verdicts(name: str, nursery: Nursery, tmp_path: Path):
    check(name, nursery, tmp_path)


@pytest.mark.few(2)
@pytest.mark.parametrize("archive", ["online-arena", "offline-arena", "online-jury", "online-best"])
def test_an_old_run_is_ranked_anew_by_pooled_for_no_call(archive: str, nursery: Nursery, tmp_path: Path):
    folder = lay_out(Case((archive,), (), (), together=False), tmp_path / "0")
    words = ["rescore", id_of(archive), "--free", "--estimator", "pooled", "--json"]
    done = nursery.wait(nursery.start(words, folder, ENVIRONMENT))
    assert done.code == 0, done.err
    groups = json.loads(done.out)["groups"]
    assert {(g["estimator"], g["judged"], g["provisional"]) for g in groups} == {("pooled", 0, False)}
    assert all(r["rank"] is not None and r["p_best"] is not None for g in groups for r in g["rollouts"])


@pytest.mark.few(4)
@cases("replayed")
def test_an_old_run_is_replayed_to_the_same_end(name: str, nursery: Nursery, tmp_path: Path):
    check(name, nursery, tmp_path)


@pytest.mark.few(3)
@cases("resumed")
def test_an_old_run_is_resumed_where_it_was_stopped_and_left_alone_where_it_was_finished(
    name: str, nursery: Nursery, tmp_path: Path
):
    check(name, nursery, tmp_path)


@pytest.mark.few(2)
@cases("damaged")
def test_the_same_damage_to_an_old_run_is_found_and_repaired(name: str, nursery: Nursery, tmp_path: Path):
    check(name, nursery, tmp_path)


@pytest.mark.few(4)
@cases("refused")
def test_what_was_refused_is_refused_with_the_same_exit_code(name: str, nursery: Nursery, tmp_path: Path):
    check(name, nursery, tmp_path)


@pytest.mark.few(3)
@cases("alone")
def test_commands_that_need_no_archive_print_what_they_printed(name: str, nursery: Nursery, tmp_path: Path):
    check(name, nursery, tmp_path)


@pytest.mark.few(2)
@cases("compared")
def test_a_comparison_concludes_what_it_concluded(name: str, nursery: Nursery, tmp_path: Path):
    check(name, nursery, tmp_path)


def test_nothing_that_is_expected_goes_unasked_and_no_archive_unread():
    facts = {"shown", "rescored", "replayed", "resumed", "damaged", "refused", "alone", "compared"}
    assert {p.stem.split("-")[0] for p in EXPECTED.iterdir()} == facts
    there = {p.name for p in GOLDEN.iterdir() if (p / "run.json").exists() or any(p.glob("*/run.json"))}
    assert there == {a for p in EXPECTED.glob("shown-*.json") for a in Case.read(p.stem).archives}


def test_no_path_of_the_machine_and_no_key_is_in_what_is_checked_in():
    for path in (p for p in GOLDEN.rglob("*.json*") if p.is_file()):
        assert not re.search(r"/(?:work|root|tmp|home|Users)/|sk-[a-z]", path.read_text("utf-8")), path
