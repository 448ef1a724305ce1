"""The page's file: written whole, for its owner alone, or not at all."""

import stat

import pytest

from harness.core.errors import ArchiveDamaged
from harness.report.html.run_page import render_page, write_page
from tests.report.archives_by_hand import build, crowd


def test_it_is_written_whole_for_the_owner_alone_and_over_an_older_one(tmp_path):
    built = build(tmp_path, crowd(2))
    target = built.folder / "report.html"
    for _ in range(2):
        write_page(built.reader, built.ranking, target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert target.read_text("utf-8") == render_page(built.reader, built.ranking)
    assert [p.name for p in built.folder.iterdir() if "report" in p.name] == ["report.html"]


def test_nothing_half_written_is_left_behind(tmp_path):
    built = build(tmp_path, crowd(2))
    target = built.folder / "report.html"
    target.mkdir()
    with pytest.raises(ArchiveDamaged, match=r"report\.html: a folder stands where a file should be"):
        write_page(built.reader, built.ranking, target)
    assert [p.name for p in built.folder.iterdir() if "report" in p.name] == ["report.html"]
