"""The pages' templates, with the filters that they use."""

import hashlib
import re
from functools import cache
from importlib.metadata import version
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from harness.core.unicode import mark_hidden
from harness.core.wording import counted
from harness.report import text
from harness.report.summary.match_details import MarkRow
from harness.transcripts.clean_text import clean

_SPECIAL = re.compile("[&<>'\"]")
"""The characters that are escaped in HTML."""


def page_template(name: str) -> Template:
    """Return the template of a whole page."""
    return _environment().get_template(name)


@cache
def sources_digest() -> str:
    """Name these templates and this version of the harness."""
    environment, digest = _environment(), hashlib.sha256(version("arena-harness").encode())
    for name in environment.list_templates(extensions=["j2", "css", "js"]):
        source, _, _ = environment.loader.get_source(environment, name) if environment.loader else ("", None, None)
        digest.update(f"{name}\n{source}".encode())
    return digest.hexdigest()


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("harness.report.html"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_cleaned,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = ("beginning", "count", "date", "dollars", "fixed", "probability", "seconds", "signed")
    environment.filters.update({name: getattr(text, name) for name in names}, readable=text.readable_name)

    more: dict[str, Any] = {"counted": counted, "signal_words": text.SIGNAL_WORDS.get}
    environment.filters.update(more)
    functions: dict[str, Any] = {"mark_cells": _cells}
    environment.globals.update(functions)
    return environment


def _cells(row: MarkRow, with_mean: bool) -> Markup:
    """Return the cells of a row of marks: one text a row is drawn in a third of the time of one a cell."""
    shown = [(x, y, text.mark(x), text.mark(y)) for x, y in row.pairs]
    if with_mean:
        x, y = row.mean or (None, None)
        shown.append((x, y, text.fixed(x) or "\N{EN DASH}", text.fixed(y) or "\N{EN DASH}"))
    cells = (
        f'<td class="num left{_more(x, y)}">{first}</td><td class="num{_more(y, x)}">{second}</td>'
        for x, y, first, second in shown
    )
    return Markup("".join(cells))  # noqa: S704 - numbers


def _more(ours: float | None, theirs: float | None) -> str:
    return " more" if ours is not None and theirs is not None and ours > theirs else ""


def _cleaned(value: object) -> object:
    """Clean what is printed, and mark what is hidden. Markup was cleaned when it was made, and is not escaped twice."""
    if type(value) is int:
        return Markup(str(value))  # noqa: S704 - digits
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    if value.isascii() and value.isprintable():  # nearly all that a page prints: nothing in it to clean or to mark
        return value if _SPECIAL.search(value) else Markup(value)  # noqa: S704 - nothing in it to escape
    return mark_hidden(clean(value))
