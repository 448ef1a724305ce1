"""The commands that read the archive, on a comparison."""

from datetime import timedelta
from pathlib import Path

import click

from tests.archive.comparing import a_comparison, a_comparison_head, a_filled_comparison, compared_query
from tests.archive.making import an_info
from tests.builders import AT, an_unjudged
from tests.conftest import Harness
from tests.fuzz.attacks import Room
from tests.fuzz.attempts import attempt
from tests.fuzz.commands import Values, argument_lists, commands

RUN = "20260721T140320-search-aaaaaa"
COMPARISON = "20260721T140325-compare-bbbbbb"


def a_bare_run(runs_dir: Path) -> None:
    (runs_dir / RUN).mkdir(parents=True)
    (runs_dir / RUN / "run.json").write_text(an_info(RUN, created_at=AT).model_dump_json())


def test_ls_lists_a_comparison_among_the_runs_and_says_which_it_is(harness: Harness, tmp_path: Path):
    a_bare_run(tmp_path / "runs")
    before = harness("ls", "--wide")
    a_filled_comparison(tmp_path / "runs", COMPARISON, created_at=AT + timedelta(seconds=5))
    with a_comparison(tmp_path / "runs", f"{COMPARISON}-2", created_at=AT + timedelta(seconds=5.5)):
        listed = harness("ls", "--wide")
    head, run, finished, begun = (line for line in listed.out.splitlines() if any(c.isalnum() for c in line))
    assert "kind" not in before.out
    assert "kind" in head
    assert (RUN in run, "comparison" in run) == (True, False)
    assert (COMPARISON in finished, "comparison" in finished, "done" in finished) == (True, True, True)
    assert f"{COMPARISON}-2" in begun
    if Path("/proc/locks").exists():
        assert "under way" in begun
    kinds = [(each["id"], each.get("kind"), each["state"]) for each in harness("ls", "--json").json]
    assert kinds == [
        (RUN, None, "interrupted"),
        (COMPARISON, "comparison", "done"),
        (f"{COMPARISON}-2", "comparison", "interrupted"),
    ]


def test_validate_checks_a_comparison_and_repairs_it(harness: Harness, tmp_path: Path):
    folder = a_filled_comparison(tmp_path / "runs", COMPARISON)
    whole = harness("validate", "last")
    assert (whole.code, whole.out) == (0, f"runs/{COMPARISON}: whole\n")
    path = next((folder / "verdicts").iterdir())
    path.write_bytes(path.read_bytes().replace(b'"combined"', b'"Combined"', 1))
    damaged = harness("validate", COMPARISON)
    assert (damaged.code, "the checksum does not match" in damaged.out) == (5, True)
    mended = harness("validate", COMPARISON, "--repair")
    assert (mended.code, "whole, less the lines now in damaged/" in mended.out) == (0, True)
    assert {finding["kind"] for finding in harness("validate", "--json").json} == {"notice"}


def test_stats_says_how_far_to_believe_the_judges_of_a_comparison(harness: Harness, tmp_path: Path):
    with a_comparison(tmp_path / "runs", COMPARISON) as store:
        first = [compared_query(store, f"q{i}", judge="juror-1") for i in range(2)]
        other = compared_query(store, "q2", judge="juror-2")
        store.add_verdict(an_unjudged("failed", judge="juror-2"))
        writer = store.open_comparison(a_comparison_head(store))
        for query in (*first, other.model_copy(update={"failed_verdicts": ("failed",)})):
            writer.add(query)
        writer.finish()
        writer.close()
    shown = harness("stats", "last")
    assert shown.code == 0, shown.err
    assert f"comparison {COMPARISON}: 3 queries compared" in shown.out
    judges = {judge["judge"]: judge for judge in harness("stats", "--json").json["judges"]}
    figures = {
        name: (j["verdicts"], j["flips"]["of"], j["first_wins"]["count"], j["failed"]) for name, j in judges.items()
    }
    assert figures == {"juror-1": (4, 2, 2, 0), "juror-2": (2, 1, 1, 1)}
    refused = harness("stats", "--ranking", "r1")
    assert (refused.code, f"{COMPARISON} is a comparison" in refused.err) == (2, True)


def test_stats_of_a_comparison_that_compared_nothing_says_how_to_go_on(harness: Harness, tmp_path: Path):
    a_comparison(tmp_path / "runs", COMPARISON).close()
    shown = harness("stats")
    assert (shown.code, f"harness resume runs/{COMPARISON}`" in shown.err) == (2, True), shown.err


def test_show_prints_the_comparison_and_report_writes_its_page(harness: Harness, tmp_path: Path):
    a_filled_comparison(tmp_path / "runs", COMPARISON)
    shown, as_json = harness("show"), harness("show", COMPARISON, "--json")
    assert (shown.code, as_json.code) == (0, 0), shown.err + as_json.err
    assert shown.out.splitlines()[0].startswith("B beats A on 2 of 3 queries, loses on 1")
    assert (as_json.json["comparison"], as_json.json["status"]) == (COMPARISON, "complete")
    page = harness("report")
    assert (page.code, page.out) == (0, f"runs/{COMPARISON}/report.html\n")
    assert "answer of second q1" in (tmp_path / page.out.strip()).read_text()


OF_RUNS = {
    "show": ("--rollout=1", "--match=1", "--matches", "--query=q", "--ranking=r", "--rankings", "--all", "--sort=id"),
    "report": ("--ranking=r",),
    "resume": ("--retry-failed", "--accept-changed-agent", "--approve=all"),
}


def test_an_option_that_only_a_run_has_a_use_for_is_refused_by_name(tmp_path: Path):
    room = Room.make(tmp_path / "room")
    a_filled_comparison(room.runs, COMPARISON, finish=False)
    for command, options in OF_RUNS.items():
        for option in options:
            refused = attempt((command, "last", option), room.work, room.environ())
            assert refused.code == 2, option
            assert f"{option.partition('=')[0]} is about a run, and {COMPARISON} is a comparison" in refused.err_text


TAKE_BOTH = {"label", "show", "stats", "report", "validate", "resume"}


def _a_value(option: click.Option) -> str:
    return option.type.choices[0] if isinstance(option.type, click.Choice) else "some"


def test_every_other_command_says_in_a_line_that_it_needs_a_run_and_what_to_type(tmp_path: Path):
    room = Room.make(tmp_path / "room")
    a_filled_comparison(room.runs, COMPARISON)
    values = {"rubric": "writing", "format": "messages", "first": "0", "second": "1"}
    told: dict[str, str] = {}
    for command in commands():
        if command.takes_run and command.name not in TAKE_BOTH:
            argv = next(argument_lists(command, Values(run=COMPARISON, by_name=values)))
            needed = [option for option in command.valued if option.required and option.opts[0] not in argv]
            argv += tuple(word for option in needed for word in (option.opts[0], _a_value(option)))
            done = attempt(argv, room.work, room.environ())
            told[command.name] = done.err_text
            assert done.code == 2, command.name
    says = f"{COMPARISON} is a comparison, not a run: name a run. `harness show {COMPARISON}` shows the comparison"
    assert {name: text for name, text in told.items() if says not in " ".join(text.split())} == {}
    assert {"rescore", "replay", "judges"} <= told.keys()


def test_resume_of_a_complete_comparison_has_nothing_to_do(harness: Harness, tmp_path: Path):
    a_filled_comparison(tmp_path / "runs", COMPARISON)
    assert "every run is finished" in harness("resume").out


def test_resume_of_a_finished_comparison_that_is_named_says_so_in_one_line(harness: Harness, tmp_path: Path):
    done = harness("compare", *_offline_runs(harness, tmp_path), "--allow-offline", "--json")
    assert done.code == 0, done.err
    again = harness("resume", done.json["comparison"])
    assert again.out == f"nothing to do: comparison {done.json['comparison']} is finished\n"
    assert "resuming" not in again.err


def _offline_runs(harness: Harness, tmp_path: Path) -> list[str]:
    for seed in ("1", "2"):
        assert harness("run", "Why?", "--offline", "-n", "2", "--seed", seed, "-q").code == 0
    return sorted(path.name for path in (tmp_path / "runs").iterdir())


def test_a_comparison_whose_runs_are_elsewhere_says_which_ones_and_reads_no_other_folder(
    harness: Harness, tmp_path: Path
):
    """A side is found by its id among today's runs or beside the comparison, never by a link, nor if it has changed."""
    theirs = tmp_path / "theirs"
    a_filled_comparison(theirs, COMPARISON, finish=False)
    a_bare_run(theirs)
    (tmp_path / "runs").mkdir()
    nowhere = harness("resume", str(theirs / COMPARISON))
    assert nowhere.code == 2
    assert "the run of side A, runs/run-a, is not there" in " ".join(nowhere.err.split())
    (theirs / RUN).rename(theirs / "run-a")
    beside = harness("resume", str(theirs / COMPARISON))
    assert (beside.code, "its run.json has changed" in " ".join(beside.err.split())) == (2, True)
    (theirs / "run-a").rename(tmp_path / "run-a")
    (tmp_path / "runs" / "run-a").symlink_to(tmp_path / "run-a")
    linked = harness("resume", str(theirs / COMPARISON))
    assert (linked.code, "is not there" in linked.err) == (2, True)
    (tmp_path / "runs" / "run-a").unlink()
    (tmp_path / "run-a").rename(tmp_path / "runs" / "run-a")
    other = harness("resume", str(theirs / COMPARISON))
    assert (other.code, "its run.json has changed" in " ".join(other.err.split())) == (2, True)
