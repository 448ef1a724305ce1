"""Text that UTF-8 can hold."""

import re

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def valid_unicode(text: str) -> str:
    """Return `text` with U+FFFD in place of lone surrogates, which UTF-8 cannot hold."""
    return _LONE_SURROGATE.sub("\ufffd", text)
