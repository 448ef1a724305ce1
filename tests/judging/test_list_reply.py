"""A listwise reply: matched by id, or sent back."""

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.judging.reply import ReplyError, list_schema, read_scores
from tests import builders

assert builders
IDS = ["1", "2", "3"]


def entries(*scores: tuple[Any, Any]) -> list[dict[str, Any]]:
    return [{"trajectory_id": i, "explanation": f"why {i}", "score": s} for i, s in scores]


def text(listed: Any) -> str:
    return json.dumps({"scores": listed})


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9), st.randoms())
def test_scores_are_matched_by_id_whatever_the_order(scores: list[float], rng: random.Random) -> None:
    ids = [str(i) for i in range(1, len(scores) + 1)]
    listed = entries(*zip(ids, scores, strict=True))
    rng.shuffle(listed)
    found = read_scores(text(listed), ids)
    assert [found[i] for i in ids] == [(s, f"why {i}") for i, s in zip(ids, scores, strict=True)]


@pytest.mark.parametrize("wrapped", ["```json\n{}\n```", "<think>{{1}}</think>{}", "Here you are: {} Good luck."])
def test_prose_fences_and_thoughts_around_the_json_are_no_matter(wrapped: str) -> None:
    reply = wrapped.replace("{{1}}", "none").replace("{}", text(entries((1, 0.2), ("2", "0.4"), ("3", 1))))
    assert {k: v[0] for k, v in read_scores(reply, IDS).items()} == {"1": 0.2, "2": 0.4, "3": 1.0}


GOOD = [("1", 0.1), ("2", 0.2), ("3", 0.3)]


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        (entries(*GOOD[:2]), "trajectory_id 3 is not scored"),
        (entries(), "1, 2, 3 is not scored"),
        (entries(*GOOD, ("2", 0.9)), "2 is scored more than once"),
        (entries(*GOOD, ("2", 0.2)), "2 is scored more than once"),
        (entries(*GOOD[:2], ("4", 0.3)), "no trajectory_id '4'"),
        (entries(*GOOD, ("trajectory 4", 0.3)), "there are 1, 2, 3"),
        (entries(*GOOD[:2], ("3", 1.2)), "from 0 to 1; it is '1.2'"),
        (entries(*GOOD[:2], ("3", -0.1)), "from 0 to 1"),
        (entries(*GOOD[:2], ("3", None)), "missing"),
        (entries(*GOOD[:2], ("3", True)), "from 0 to 1"),
        (entries(*GOOD[:2], ("3", "high")), "from 0 to 1"),
        (entries(*GOOD[:2], ("3", "nan")), "from 0 to 1"),
        (entries(*GOOD[:2], ("3", float("nan"))), "no JSON object"),
        ({"1": 0.1}, "must be a list"),
        ([0.1, 0.2, 0.3], "must be an object"),
    ],
)
def test_what_does_not_score_each_once_from_0_to_1_is_refused_in_words(listed: Any, said: str) -> None:
    with pytest.raises(ReplyError, match=said):
        read_scores(text(listed), IDS)


@pytest.mark.parametrize(
    "reply", ["", "I cannot judge these.", '{"scores": [', "[1, 2]", text(entries(*GOOD)) + text([])]
)
def test_a_reply_without_one_such_object_is_refused(reply: str) -> None:
    with pytest.raises(ReplyError):
        read_scores(reply, IDS)


def test_the_schema_names_the_ids_that_there_are() -> None:
    item = list_schema(IDS)["properties"]["scores"]["items"]
    assert item["properties"]["trajectory_id"]["enum"] == IDS
    assert list(item["properties"]) == ["trajectory_id", "explanation", "score"]
    assert item["additionalProperties"] is False
