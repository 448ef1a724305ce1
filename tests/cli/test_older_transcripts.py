"""Runs of version 0.1.0, whose transcripts are written in an older way: shown so, and judged anew with a reason."""

import json
import os
import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.attempts import Outcome, attempt
from tests.test_old_archives import folder_of

WHY = "no text of a tool can pose as a step"


class Old:
    """A working folder with a copy of an archive of 0.1.0."""

    def __init__(self, folder: Path, archive: str) -> None:
        self.folder = folder
        self.run = folder / "runs" / folder_of(archive).name
        shutil.copytree(folder_of(archive), self.run)

    def __call__(self, *argv: str) -> Outcome:
        kept = {name: value for name, value in os.environ.items() if name.startswith("XDG_")}
        outcome = attempt(
            argv, self.folder, kept | {"TIKTOKEN_CACHE_DIR": "", "COLUMNS": "400", "TERM": "dumb"}, limit_s=60
        )
        assert not outcome.faults()
        return outcome

    def json(self, *argv: str) -> Any:
        return json.loads(self(*argv, "--json").out_text)

    def verdicts(self) -> int:
        lines = [json.loads(line) for path in self.run.glob("verdicts/*") for line in path.read_text().splitlines()]
        return sum(line["kind"] == "verdict" for line in lines)

    def heads(self) -> list[dict[str, Any]]:
        """The headers of the rankings, the oldest first."""
        return [json.loads(path.read_text().splitlines()[0]) for path in sorted(self.run.glob("rankings/*.jsonl"))]

    def change_head(self, **changes: Any) -> None:
        """Change the header of the ranking, and its checksum."""
        (path,) = self.run.glob("rankings/*.jsonl")
        head, _, groups = path.read_text().partition("\n")
        members = {k: v for k, v in json.loads(head).items() if k != "crc"} | changes
        text = json.dumps(members, separators=(",", ":"), ensure_ascii=False)[1:]
        path.write_text(f'{{"crc":"{zlib.crc32(text.encode()):08x}",{text}\n{groups}')


@pytest.fixture
def arena(tmp_path: Path) -> Old:
    return Old(tmp_path, "offline-arena")


def said(outcome: Outcome) -> str:
    return outcome.out_text + outcome.err_text


def test_a_rescoring_says_before_it_buys_how_many_verdicts_do_not_count_and_why(arena: Old) -> None:
    before = arena.verdicts()
    done = arena("rescore")
    assert done.code == 0
    (line,) = (line for line in done.err_text.splitlines() if WHY in line)
    assert f"{before} verdicts of before do not count" in line
    assert arena.verdicts() == 2 * before
    again = arena("rescore")
    assert WHY not in said(again)
    assert arena.verdicts() == 2 * before


def test_a_dry_run_says_it_too_and_its_json_has_the_number(arena: Old) -> None:
    shown = arena("rescore", "--dry-run")
    assert shown.out_text.startswith("reused 0, would buy ")
    assert WHY in shown.out_text
    assert arena.json("rescore", "--dry-run")["outdated"] == arena.verdicts()
    assert len(arena.heads()) == 1


def test_a_free_rescoring_says_how_many_it_misses_and_why(arena: Old) -> None:
    done = arena("rescore", "--free")
    assert (done.code, WHY in done.err_text, "would miss " in done.err_text) == (3, True, True)
    shown = arena.json("rescore", "--dry-run", "--free")
    assert shown["would_miss"] > 0
    assert shown["outdated"] == arena.verdicts()


@pytest.mark.parametrize("changes", [["--rubric", "task"], ["--hide-instructions"]])
def test_verdicts_that_would_not_be_reused_in_the_old_way_either_are_not_spoken_of(
    arena: Old, changes: list[str]
) -> None:
    assert arena.json("rescore", "--dry-run", *changes)["outdated"] == 0
    assert WHY not in said(arena("rescore", "--dry-run", *changes))


def test_only_the_verdicts_that_this_rescoring_would_reuse_are_counted(arena: Old) -> None:
    some = arena.json("rescore", "--dry-run", "--order", "single")
    assert 0 < some["outdated"] < arena.verdicts()


def test_a_rescoring_in_the_old_way_reuses_what_there_is(arena: Old) -> None:
    before = arena.verdicts()
    assert arena.json("rescore", "--dry-run", "--rendering", "1")["would_buy"] == [0, 0]
    done = arena("rescore", "--rendering", "1")
    assert (done.code, WHY in said(done), arena.verdicts()) == (0, False, before)
    assert [head.get("rendering", 1) for head in arena.heads()] == [1, 1]


def test_verdicts_of_another_older_run_are_spoken_of_as_well(arena: Old) -> None:
    new = arena.json("run", "--offline", "-n", "2", "-q")["run"]
    assert arena.json("rescore", new, "--dry-run", "--reuse", arena.run.name)["outdated"] == 0
    assert arena.json("rescore", arena.run.name, "--dry-run", "--reuse", new)["outdated"] == arena.verdicts()


def test_a_ranking_that_was_cut_short_is_completed_in_the_way_in_which_it_was_begun(tmp_path: Path) -> None:
    old = Old(tmp_path, "online-arena")
    (path,) = old.run.glob("rankings/*.jsonl")
    path.write_bytes(path.read_bytes()[:-300])
    before = old.verdicts()
    done = old("resume")
    assert (done.code, old.verdicts()) == (0, before)
    assert "goes on in that way" in " ".join(done.err_text.split())
    assert old.heads()[-1]["rendering"] == 1


def test_each_ranking_is_shown_with_the_transcripts_that_its_judge_read_and_found_whole(arena: Old) -> None:
    assert arena("rescore", "-q").code == 0
    first, second = (head["id"] for head in arena.heads())
    old, new = (arena.json("show", "--rollout", "1", "--transcript", "--ranking", r) for r in (first, second))
    assert (old["rendering"], new["rendering"]) == (1, 2)
    assert "\nOutput:\n[1] " in old["path"]
    assert "\nOutput:\n| [1] " in new["path"]
    for ranking, path in ((first, old["path"]), (second, new["path"])):
        shown = arena("show", "--match", "1", "--ranking", ranking).out_text
        assert ("| [1] " in shown) == ("| [1] " in path)
    assert arena.json("validate") == []


def test_a_new_run_says_in_which_way_its_transcripts_are_written(arena: Old) -> None:
    run = Path(arena.folder, arena.json("run", "--offline", "-n", "2", "-q")["path"])
    assert json.loads((run / "run.json").read_text())["rendering"] == 2
    (ranking,) = run.glob("rankings/*.jsonl")
    assert json.loads(ranking.read_text().splitlines()[0])["rendering"] == 2


LATER = [("show", "--rollout", "1", "--transcript"), ("show", "--match", "1"), ("report",)]


@pytest.mark.parametrize("argv", LATER)
def test_a_ranking_whose_transcripts_only_a_later_version_can_write_is_refused_in_a_line(
    arena: Old, argv: tuple[str, ...]
) -> None:
    arena.change_head(rendering=7)
    outcome = arena(*argv)
    if argv == ("report",) and outcome.code == 0:
        return  # a ranking without failed verdicts has no transcript on its page
    assert (outcome.code, "in way 7" in outcome.err_text) == (2, True)


def test_such_a_ranking_is_not_compared_by_validate_which_says_so(arena: Old) -> None:
    arena.change_head(rendering=7)
    (notice,) = arena.json("validate")
    assert (notice["kind"], "way 7" in notice["reason"]) == ("notice", True)
