"""Which pairs a person is asked about: doubtful ones first, one in ten by chance, and the sides balanced."""

import json
import random
from itertools import islice
from pathlib import Path

import pytest

from harness.archive.reader import RunReader
from harness.archive.run_info import append_label, read_labels
from harness.core.errors import ArchiveDamaged
from harness.formats.labelled_pairs import pairs_in_text
from harness.pipeline.labelling import BlindPair, answer_labels, blind_pairs
from harness.report.summary.labels import label_agreement
from harness.report.summary.pooled_fit import pair_odds
from tests.fuzz.attacks import Room

ARCHIVES = ("offline-arena", "offline-cyclic", "online-ruler", "online-jury")


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room.make(tmp_path / "room")


def asked(reader: RunReader, seed: int = 0) -> list[BlindPair]:
    return list(blind_pairs(reader, reader.ranking(), random.Random(seed), "paths"))


@pytest.mark.parametrize("archive", ARCHIVES)
def test_each_pair_that_met_is_asked_once_and_the_same_seed_asks_the_same(archive: str, room: Room):
    with RunReader(room.add_run(archive)) as reader:
        pairs = asked(reader)
        assert pairs == asked(reader)
        keys = [(pair.query_id, frozenset(pair.rollouts)) for pair in pairs]
        assert len(set(keys)) == len(keys) > 0
        met = {(g.query, frozenset((m.a, m.b))) for g in reader.ranking().groups for m in g.matches}
        assert set(keys) <= met or not met


@pytest.mark.parametrize("archive", ARCHIVES)
@pytest.mark.parametrize("seed", range(4))
def test_the_better_place_is_shown_first_as_often_as_second(archive: str, seed: int, room: Room):
    with RunReader(room.add_run(archive)) as reader:
        ranks = {(g.query, r.index): r.rank for g in reader.ranking().groups for r in g.rollouts}
        first_is_better = 0
        for pair in asked(reader, seed):
            first, second = (ranks[pair.query_id, index] for index in pair.rollouts)
            assert first is not None
            assert second is not None
            first_is_better += (first, pair.rollouts[0]) < (second, pair.rollouts[1]) or -1
            assert abs(first_is_better) <= 1


def test_the_most_doubtful_pairs_come_first_and_one_in_ten_is_drawn_at_random(room: Room):
    with RunReader(room.add_run("offline-cyclic")) as reader:
        pairs = asked(reader)
        assert [sum(p.is_control for p in pairs[at : at + 10]) for at in range(0, len(pairs) - 9, 10)] == [1] * (
            len(pairs) // 10
        )
        odds = pair_odds(reader.ranking())
        above = {g.query: odds(g) for g in reader.ranking().groups}
        doubts = [abs(above[p.query_id][p.rollouts] - 0.5) for p in pairs if not p.is_control]
        assert doubts == pytest.approx(sorted(doubts))
        assert len({next((p.rollouts for p in asked(reader, seed) if p.is_control), None) for seed in range(20)}) > 1


def test_a_label_is_read_as_a_pair_is_not_asked_again_and_tells_how_far_the_judge_agrees(room: Room):
    run = room.add_run("offline-cyclic")
    with RunReader(run) as reader:
        assert label_agreement(reader, reader.ranking(), answer_labels(reader, None)) is None
        ranks = {(g.query, r.index): r.rank for g in reader.ranking().groups for r in g.rollouts}
        first, second, third = islice(blind_pairs(reader, reader.ranking(), random.Random(1)), 3)
        winners = {(g.query, frozenset((m.a, m.b))): m.winner for g in reader.ranking().groups for m in g.matches}
        for pair, agrees in ((first, True), (second, True), (third, False)):
            winner = winners[pair.query_id, frozenset(pair.rollouts)]
            judged = "tie" if winner is None else "ab"[pair.rollouts.index(winner)]
            append_label(run, pair.line(judged if agrees else {"a": "b", "b": "tie", "tie": "a"}[judged], "answers"))  # pyright: ignore[reportArgumentType]
        assert ranks
        assert len(pairs_in_text(read_labels(reader.folder) or "", "labels")) == 3
        keys = {(p.query_id, frozenset(p.rollouts)) for p in (first, second, third)}
        assert not keys & {(p.query_id, frozenset(p.rollouts)) for p in asked(reader)}
        agreement = label_agreement(reader, reader.ranking(), answer_labels(reader, None))
        assert agreement
        assert (agreement.labelled.part, agreement.labelled.whole) == (2, 3)
        assert agreement.control.whole == sum(p.is_control for p in (first, second, third))


def test_labels_of_another_hand_are_kept_and_a_last_line_without_its_end_gets_it(room: Room):
    run = room.add_run("offline-arena")
    (run / "labels.jsonl").write_text('{"query":"q","a":"x","b":"y","label":"a"}')
    append_label(run, '{"query":"q","a":"x","b":"y","label":"b"}\n')
    lines = (run / "labels.jsonl").read_text().splitlines()
    assert [json.loads(line)["label"] for line in lines] == ["a", "b"]


def test_a_link_in_place_of_the_labels_is_refused_and_not_followed(room: Room, tmp_path: Path):
    run, outside = room.add_run("offline-arena"), tmp_path / "outside"
    outside.write_text("")
    (run / "labels.jsonl").symlink_to(outside)
    with pytest.raises(ArchiveDamaged, match="a link stands"):
        append_label(run, "{}\n")
    assert outside.read_text() == ""
