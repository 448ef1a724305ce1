"""Text made fit to be hashed, sent and shown: valid Unicode without control characters, and nothing in it hidden."""

import re

from harness.core.unicode import mark_hidden, valid_unicode

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_LINE_END = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
"""What Unicode takes for the end of a line (Standard Annex 14), but for the line feed. Its FS, GS and RS are none."""
_MARK = re.compile(r"<U\+([0-9A-F]{4,6})>")


def clean(text: str) -> str:
    """Return `text` as valid Unicode on plain lines: lone surrogates become U+FFFD, control characters are removed."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub("", valid_unicode(text))


def legible(text: str) -> str:
    """Return `text` as a judge may read it: clean, every end of a line a line feed, hidden characters as marks.

    A character that nobody would see, or that turns others round, becomes a mark such as `<U+200B>` (`mark_hidden`
    names the exceptions). Text that only looks like such a mark is written `<u+200B>`, so a mark means what it says.
    """
    if text.isascii() and text.replace("\n", " ").replace("\t", " ").isprintable() and "<U+" not in text:
        return text  # found out fast, and so it is for nearly every English text
    plain = clean(_LINE_END.sub("\n", text))
    return mark_hidden(_MARK.sub(r"<u+\1>", plain))


def hidden_marks(text: str) -> list[str]:
    """Return the characters that `legible` has marked in a text, as `U+200B`, in their order."""
    return [f"U+{digits}" for digits in _MARK.findall(text)] if "<U+" in text else []


def without_marks(text: str) -> str:
    """Return a legible text without its marks: as if the hidden characters had never been there."""
    return _MARK.sub("", text) if "<U+" in text else text
