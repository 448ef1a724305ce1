"""Text that UTF-8 can hold, in which nothing is hidden, and addresses without user, password and query."""

import json
import re
from urllib.parse import SplitResult, urlsplit, urlunsplit

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SEPARATOR = re.compile("[\u2028\u2029\ufff9-\ufffb]")
"""Line and paragraph separator, and the marks of ruby text: a terminal shows nothing in their place."""
_BREAK = re.compile(r"[\t\n]")
_RAW_IN_JSON = re.compile("[\x7f-\x9f\u2028\u2029\ufff9-\ufffb\ud800-\udfff]")

_IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Unicode's property Default_Ignorable_Code_Point (DerivedCoreProperties.txt); all bidirectional controls have it."""
_HIDDEN = re.compile(f"[{_IGNORABLE}]")
_EMOJI = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u21aa\u231a-\u23ff\u24c2\u25aa-\u25fe\u2600-\u27bf\u2934\u2935"
    "\u2b05-\u2b55\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
"""The blocks and single signs that hold what Unicode calls Extended_Pictographic."""
_JOINED = re.compile(
    rf"(?<=[{_EMOJI}\ufe0f])\u200d(?=[{_EMOJI}])"  # a family, a profession: one sign made of several
    r"|(?<=[^\W\d_])[\u200c\u200d](?=[^\W\d_])|(?<=[\u0900-\u0dff\u1000-\u109f\u1780-\u17ff])[\u200c\u200d]"
)
"""ZWJ and ZWNJ stand between letters in Persian and Indic writing, where a vowel sign or a virama may be no letter."""
_BLACK_FLAG, _LONGEST_FLAG = "\U0001f3f4", 8
_FLAG = re.compile(f"{_BLACK_FLAG}[\U000e0030-\U000e0039\U000e0061-\U000e007a]{{1,6}}\U000e007f")
"""The flag of a region, such as Scotland's: a black flag, the region's name in tags, and the end of the tags."""


def valid_unicode(text: str) -> str:
    """Return `text` with U+FFFD in place of lone surrogates, which UTF-8 cannot hold."""
    try:
        text.encode()  # many times as fast as a search, and nearly every text is valid
    except UnicodeEncodeError:
        return _LONE_SURROGATE.sub("\ufffd", text)
    return text


def mark_hidden(text: str) -> str:
    """Return `text` with a mark such as `<U+202E>` for each character that is not seen or that turns the others round.

    These are Unicode's default-ignorable and bidirectional control characters. Left as they are: U+FE0F, ZWJ inside
    an emoji, ZWJ and ZWNJ between letters, and the tags of a region's flag.
    """
    if text.isascii():
        return text
    return _HIDDEN.sub(lambda match: match[0] if _has_use(match) else _mark(match[0]), text)


def mark_controls(text: str) -> str:
    """Return `text` with a mark such as `<U+001B>` for each control character but tab and line feed."""
    return _CONTROL.sub(lambda match: _mark(match[0]), text)


def visible(text: str) -> str:
    """Return `text` as it may be shown: valid, with marks for what a terminal would obey or what nobody would see.

    The line break of Windows, CR and LF, becomes LF.
    """
    shown = mark_controls(text.replace("\r\n", "\n"))
    if shown.isascii():
        return shown
    return _SEPARATOR.sub(lambda match: _mark(match[0]), mark_hidden(valid_unicode(shown)))


def visible_name(text: str) -> str:
    """Return `text` as `visible` does, with marks for line breaks and tabs too: a name cannot look like more lines."""
    return _BREAK.sub(lambda match: _mark(match[0]), visible(text))


def escape_json(text: str) -> str:
    r"""Return JSON with `\uXXXX` for what `visible` marks. It is read back as the same value."""
    if text.isascii() and "\x7f" not in text:
        return text
    escaped = _HIDDEN.sub(lambda match: match[0] if _has_use(match) else json.dumps(match[0])[1:-1], text)
    return _RAW_IN_JSON.sub(lambda match: json.dumps(match[0])[1:-1], escaped)


def _has_use(match: re.Match[str]) -> bool:
    """Tell whether an ignorable character does what writing or an emoji needs."""
    character, text, at = match[0], match.string, match.start()
    if character == "\ufe0f":
        return True
    if character in "\u200c\u200d":
        return _JOINED.match(text, at) is not None
    if not "\U000e0020" <= character <= "\U000e007f":  # no tag
        return False
    flag_at = text.rfind(_BLACK_FLAG, max(0, at - _LONGEST_FLAG), at)
    flag = _FLAG.match(text, flag_at) if flag_at >= 0 else None
    return flag is not None and flag.end() > at


def _mark(character: str) -> str:
    return f"<U+{ord(character):04X}>"


def without_credentials(url: str | None) -> str | None:
    """Return `url` without user, password, query and fragment, fit to be written down; None for what is no URL."""
    parts = _split(url)
    return parts and urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def with_placeholder(url: str) -> str:
    """Return `url` as it may be shown in a command to type: words in the place of user and password, and no query."""
    parts = _split(url)
    if parts is None:
        return "URL"
    _, at, host = parts.netloc.rpartition("@")
    return urlunsplit((parts.scheme, ("USER:PASSWORD@" if at else "") + host, parts.path, "", ""))


def _split(url: str | None) -> SplitResult | None:
    try:
        return None if url is None else urlsplit(url)
    except ValueError:
        return None
