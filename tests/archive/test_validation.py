"""An archive is whole or its damage is named; a repair moves just that aside."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.archive.lines import encode, read_lines
from harness.archive.reader import RunReader
from harness.archive.run_info import ASIDE
from harness.core.errors import ArchiveDamaged
from harness.core.progress import now
from harness.pipeline.validation import Validation, validate_folder
from tests.archive.making import lines_of

(WHOLE,) = (Path(__file__).parents[1] / "data" / "golden" / "offline-arena").glob("2*")
SEGMENTS = ("blobs", "queries", "rollouts", "verdicts", "rankings")


def copied(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    for path in WHOLE.rglob("*"):
        if path.is_file():
            target = folder / path.relative_to(WHOLE)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    return folder


def files_of(folder: Path) -> list[Path]:
    return sorted(p for name in SEGMENTS for p in (folder / name).glob("*.jsonl"))


def damage(checked: Validation) -> list[tuple[str, int | None]]:
    return [(f.path.parent.name, f.line) for f in checked.findings if f.kind == "damage"]


def records(folder: Path) -> set[bytes]:
    return {line for path in files_of(folder) for line in lines_of(path)}


def test_a_checked_in_run_is_read_whole():
    with RunReader(WHOLE) as reader:
        checked = validate_folder(WHOLE, now)
        assert checked.findings == ()
        assert reader.info.schema_version == 1
        (query,) = reader.queries()
        group, ranking = reader.group(query), reader.ranking()
        assert [r.index for r in group.rollouts] == [0, 1, 2, 3]
        assert ranking.finished
        assert sorted(r.rank for r in ranking.groups[0].rollouts if r.rank is not None) == [0, 1, 2, 3]
        assert all(reader.verdict(key) for m in ranking.groups[0].matches for key in m.verdicts)


@settings(max_examples=12)
@given(data=st.data())
def test_a_flipped_byte_anywhere_is_named_and_repaired_without_harm_to_other_records(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
):
    folder = copied(tmp_path_factory.mktemp("flipped"))
    path = data.draw(st.sampled_from(files_of(folder)))
    whole, before = path.read_bytes(), records(folder)
    place, bit = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(0, 7))
    changed = bytearray(whole)
    changed[place] ^= 1 << bit
    path.write_bytes(changed)
    number = whole.count(b"\n", 0, place) + 1
    checked = validate_folder(folder, now, repair=True)
    assert (path.parent.name, number) in damage(checked)
    assert checked.damaged == 0
    kept = records(folder)
    assert kept <= before
    if path.parent.name not in {"blobs", "queries"}:
        assert len(before - kept) <= 3  # the line itself, a ranked group that rests on it, a footer that counts it
    assert (folder / ASIDE).is_dir()


@pytest.mark.parametrize("segment", SEGMENTS)
def test_a_file_cut_in_its_last_record_is_a_notice_or_names_what_it_takes_along(segment: str, tmp_path: Path):
    folder = copied(tmp_path)
    path = next(p for p in files_of(folder) if p.parent.name == segment)
    path.write_bytes(path.read_bytes()[:-7])
    checked = validate_folder(folder, now)
    torn = [f for f in checked.findings if f.path == path]
    assert torn[0].kind == "notice"
    assert "never counted" in torn[0].reason


def counted(reader: RunReader) -> Counter[str]:
    """Count what a run's reader finds, all of it read."""
    return Counter(
        queries=len(list(reader.queries())),
        verdicts=len(list(reader.verdicts())),
        rollouts=sum(len(reader.group(query).rollouts) for query in reader.queries()),
        rankings=sum(len(list(one.groups)) + one.finished for one in reader.rankings()),
    )


def cut_points(length: int) -> list[int]:
    """Return where to cut a record: at every byte of its first and last 64, and at every 64th between."""
    return sorted({*range(min(64, length)), *range(0, length, 64), *range(max(0, length - 64), length)})


@pytest.mark.few(1)
@pytest.mark.parametrize("segment", SEGMENTS)
def test_a_file_cut_within_its_last_record_loses_that_record_alone(segment: str, tmp_path: Path):
    folder = copied(tmp_path)
    path = next(p for p in files_of(folder) if p.parent.name == segment)
    *before, last = lines_of(path)
    others = [line for p in files_of(folder) if p != path for line in lines_of(p)]
    with RunReader(folder) as reader:
        expected = counted(reader)
    expected[segment] -= segment != "blobs"
    if segment == "queries":
        expected["rollouts"] = 0  # of a query that is no longer there
    for cut in cut_points(len(last)):
        path.write_bytes(b"".join([*before, last[:cut]]))
        assert [at.place.offset for at in read_lines(path)] == [sum(map(len, before[:i])) for i in range(len(before))]
        with RunReader(folder) as reader:
            assert counted(reader) == expected
    assert [line for p in files_of(folder) if p != path for line in lines_of(p)] == others


def with_group(folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """Change the ranked group of a run, in the second line of the file returned; its checksum is right."""
    (path,) = (folder / "rankings").glob("*.jsonl")
    head, group, footer = lines_of(path)
    body = {k: v for k, v in json.loads(group).items() if k not in {"crc", "schema_version", "kind"}}
    change(body)
    path.write_bytes(head + encode("group", json.dumps(body)) + footer)
    return path


def test_ranks_that_do_not_follow_from_the_matches_are_damage(tmp_path: Path):
    def swap(group: dict[str, Any]) -> None:
        first, second = group["rollouts"][:2]
        first["rank"], second["rank"] = second["rank"], first["rank"]

    folder = copied(tmp_path)
    with_group(folder, swap)
    checked = validate_folder(folder, now)
    assert damage(checked) == [("rankings", 2)]
    assert "do not follow" in checked.findings[0].reason


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"scores": []}, "one pair of scores, for each"),
        ({"scores": [[5, 5]]}, "one pair of scores, for each"),
        ({"scores": [[5, 1e300], [5, 5]]}, "a score that no judge gives"),
        ({"score_a": -1e7}, "a score that no judge gives"),
        ({"shown_first": [0]}, "one rollout shown first"),
        ({"shown_first": [0, 9]}, "that does not take part"),
        ({"winner": 9}, "that does not take part"),
        ({"verdicts": ["k"]}, "for each of its verdicts"),
        ({"verdicts": [], "shown_first": [], "scores": []}, "for each of its verdicts"),
        ({"jurors": [0]}, "jurors: one for each"),
        ({"jurors": [0, 1]}, "jurors in all of them"),
        ({"b": 0, "a": 0}, "meets itself"),
        ({"round": -1}, "round: "),
    ],
    ids=str,
)
def test_a_match_that_does_not_fit_itself_is_damage_to_all_who_read_the_ranking(
    changes: dict[str, Any], reason: str, tmp_path: Path
):
    folder = copied(tmp_path)
    path = with_group(folder, lambda group: group["matches"][0].update(changes))
    with RunReader(folder) as reader, pytest.raises(ArchiveDamaged, match=rf"{path}:2: no valid record: .*{reason}"):
        list(reader.ranking().groups)
    assert ("rankings", 2) in damage(validate_folder(folder, now))


def test_a_match_without_its_scores_is_damage(tmp_path: Path):
    folder = copied(tmp_path)
    path = with_group(folder, lambda group: group["matches"][-1].pop("scores"))
    with RunReader(folder) as reader, pytest.raises(ArchiveDamaged, match=rf"{path}:2: .*scores: Field required"):
        list(reader.ranking().groups)


def test_ranks_by_a_later_version_of_the_fit_are_not_compared(tmp_path: Path):
    folder = copied(tmp_path)
    (path,) = (folder / "rankings").glob("*.jsonl")
    head, *others = lines_of(path)
    body = {k: v for k, v in json.loads(head).items() if k not in {"crc", "schema_version", "kind"}}
    path.write_bytes(b"".join([encode("header", json.dumps(body | {"fit_version": 99})), *others]))
    checked = validate_folder(folder, now)
    assert [(f.kind, "only a later version fits" in f.reason) for f in checked.findings] == [("notice", True)]


def test_what_a_changed_line_end_glued_together_is_kept(tmp_path: Path):
    folder = copied(tmp_path)
    (path,) = (folder / "verdicts").glob("*.jsonl")
    lines = lines_of(path)
    path.write_bytes(b"".join(lines).replace(b"}\n", b"}x", 2))
    checked = validate_folder(folder, now, repair=True)
    assert damage(checked)[0] == ("verdicts", 1)
    assert checked.damaged == 0
    assert lines_of(path) == lines


def test_an_unreadable_run_json_is_damage(tmp_path: Path):
    folder = copied(tmp_path)
    (folder / "run.json").write_text("{")
    checked = validate_folder(folder, now)
    assert any(f.path.name == "run.json" and f.kind == "damage" for f in checked.findings)
