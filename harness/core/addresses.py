"""Addresses as they may be written down or shown: without user, password and query."""

from urllib.parse import SplitResult, urlsplit, urlunsplit


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
