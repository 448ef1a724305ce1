"""Text made fit to be hashed, sent and shown: valid Unicode without control characters."""

import re

from harness.core.unicode import valid_unicode

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def clean(text: str) -> str:
    """Return `text` as valid Unicode on plain lines: lone surrogates become U+FFFD, control characters are removed."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub("", valid_unicode(text))
