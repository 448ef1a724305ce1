"""The commands that read the archive, on a comparison."""

from datetime import timedelta
from pathlib import Path

from tests.archive.comparing import a_comparison, a_comparison_head, a_filled_comparison, compared_query
from tests.archive.making import an_info
from tests.builders import AT, an_unjudged
from tests.conftest import Harness

RUN = "20260721T140320-search-aaaaaa"
COMPARISON = "20260721T140325-compare-bbbbbb"


def a_bare_run(runs_dir: Path) -> None:
    (runs_dir / RUN).mkdir(parents=True)
    (runs_dir / RUN / "run.json").write_text(an_info(RUN, created_at=AT).model_dump_json())


def test_ls_lists_a_comparison_among_the_runs_and_says_which_it_is(harness: Harness, tmp_path: Path):
    a_bare_run(tmp_path / "runs")
    before = harness("ls", "--wide")
    a_filled_comparison(tmp_path / "runs", COMPARISON, created_at=AT + timedelta(seconds=5))
    with a_comparison(tmp_path / "runs", f"{COMPARISON}-2"):
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
    assert (shown.code, f"harness resume {COMPARISON}`" in shown.err) == (2, True), shown.err
