"""The rubric's own text as records keep it: a run is judged again by what it holds, never by a file that it names."""

import hashlib

from harness.core.records import digest


def check_rubric_text(label: str | None, text: str | None) -> None:
    """Raise ValueError for a text whose fingerprint is not the one in the label."""
    if text is not None and (label or "").rpartition(" ")[2] not in _fingerprints(text):
        raise ValueError("rubric_text is not the text whose fingerprint the rubric's label holds")


def _fingerprints(text: str) -> set[str]:
    """Return what may stand at the end of a label: of a rubric with dimensions, or of a text in plain words."""
    return {hashlib.sha256(text.encode()).hexdigest()[:12], digest(text)[:12]}
