"""The pairs of answers that come with the harness."""

from importlib.resources import files

from harness.formats.labelled_pairs import LabelledPair, pairs_in_text


def bundled_pairs() -> list[LabelledPair]:
    """Return the pairs made for this project: each worse answer is worse by construction, in the way its class says."""
    return pairs_in_text((files("harness.doctor") / "pairs.jsonl").read_text("utf-8"), "pairs.jsonl")
