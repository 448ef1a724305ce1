"""The pages' templates, with the filters that they use."""

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from harness.core.unicode import mark_hidden
from harness.report import text
from harness.transcripts import clean


def page_template(name: str) -> Template:
    """Return the template of a whole page."""
    return _environment().get_template(name)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("harness.report.html", ""),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_cleaned,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        beginning=text.beginning,
        count=text.count,
        date=text.date,
        dollars=text.dollars,
        fixed=text.fixed,
        probability=text.probability,
        readable=text.readable_name,
        seconds=text.seconds,
        signed=text.signed,
    )
    return environment


def _cleaned(value: object) -> object:
    """Clean what is printed, and mark what is hidden. Markup was cleaned when it was made, and is not escaped twice."""
    return mark_hidden(clean(value)) if isinstance(value, str) and not isinstance(value, Markup) else value
