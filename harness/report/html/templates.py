"""The page's template, with the filters that it uses."""

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from harness.core.unicode import mark_hidden
from harness.report import text
from harness.transcripts import clean


@cache
def page_template() -> Template:
    """Return the template of the whole page."""
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
    return environment.get_template("page.html.j2")


def _cleaned(value: object) -> object:
    """Clean what is printed, and mark what is hidden. Markup was cleaned when it was made, and is not escaped twice."""
    return mark_hidden(clean(value)) if isinstance(value, str) and not isinstance(value, Markup) else value
