"""A run as one self-contained HTML page, drawn from its archive and one ranking alone.

Every text of an archive is another's: it goes through `clean`, is escaped, and is set apart from the text around
it. The page asks for nothing over the network and runs no script.
"""

import os
import secrets
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from harness.archive import RankingFile, RunReader
from harness.report import text
from harness.report.facts import run_facts, summary_facts
from harness.report.json import is_offline
from harness.report.judge_quality import judge_qualities
from harness.report.sections import sections
from harness.report.totals import RankingSummary, summarize
from harness.transcripts import clean

_SUMMARY_ABOVE = 3
_DETAILED = 50


def write_page(reader: RunReader, ranking: RankingFile, target: Path, found: RankingSummary | None = None) -> None:
    """Write the page of `ranking` to `target` (mode 0600), whole or not at all; `found` is its survey."""
    page = render_page(reader, ranking, found)
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(page)
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def render_page(reader: RunReader, ranking: RankingFile, found: RankingSummary | None = None) -> str:
    """Return the page of `ranking`: the same archive gives the same text.

    Above 3 queries it opens with a summary; above 50 only the first 50 are shown in full, and the page says so.
    """
    if found is None or not ranking.finished:
        found = summarize(reader, ranking, owed=True)
    return _template().render(
        info=reader.info,
        offline=is_offline(reader, ranking),
        finished=ranking.finished,
        about=run_facts(reader, ranking, found),
        groups=sections(reader, ranking, _DETAILED),
        glances=found.glances,
        summary=summary_facts(found) if len(found.glances) > _SUMMARY_ABOVE else None,
        rollouts=found.agents.runs,
        trusts=judge_qualities(reader, ranking, found),
    )


@cache
def _template() -> Any:
    environment = Environment(
        loader=PackageLoader("harness.report", ""),
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
        seconds=text.seconds,
        signed=text.signed,
        words=text.words,
    )
    return environment.get_template("page.html.j2")


def _cleaned(value: Any) -> Any:
    """Clean whatever is printed. What is markup already was cleaned when it was made, and must not be escaped twice."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value
