"""The pages of a run's queries: a page a query, drawn only where anything that it shows has changed."""

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.archive.page_folder import PageFolder, opened_pages, page_name
from harness.archive.rankings import RankingFile
from harness.archive.reader import RunReader
from harness.core.rankings import GroupRanking
from harness.core.records import Query
from harness.report.html.facts import Fact, query_page_facts
from harness.report.html.query.section import SectionMaker
from harness.report.summary.ranking import RankingSummary, is_offline, ranked_queries

_OF_ONE_RANKING = {"judged", "reused", "judge_usage", "judge_usd", "spared"}
"""What a ranking says of a group that no page shows: it differs between rankings that are otherwise the same."""


def pages_folder(target: Path) -> Path:
    """Return the folder of the queries' pages that belongs to an index."""
    return target.with_suffix("") if target.suffix else target.with_name(f"{target.name}-pages")


def write_query_pages(
    reader: RunReader,
    ranking: RankingFile,
    summary: RankingSummary,
    target: Path,
    *,
    anew: bool,
    on_page: Callable[[int, int], None] | None = None,
) -> None:
    """Write the pages of all queries of the index at `target`, one after the other, and remove those of others.

    `on_page` is told after each how many are done, and of how many.
    Raises CannotWrite, ArchiveDamaged.
    """
    with opened_pages(pages_folder(target), remember=not anew) as pages:
        drawing = _Drawing.of(reader, ranking, summary, target.name)
        for at, (query, ranked) in enumerate(ranked_queries(reader, ranking, owed=True)):
            drawing.write(pages, at, query, ranked)
            if on_page:
                on_page(at + 1, len(summary.lines))


@dataclass(frozen=True)
class _Drawing:
    """What the pages of one ranking share."""

    reader: RunReader
    maker: SectionMaker
    names: list[str]
    """The file names of all pages, in the order of the queries."""
    index: str
    offline: bool
    about: list[Fact]
    common: str
    """What all pages are made of, hashed."""

    @classmethod
    def of(cls, reader: RunReader, ranking: RankingFile, summary: RankingSummary, index: str) -> "_Drawing":
        from harness.report.html.templates import sources_digest  # noqa: PLC0415 - only drawing a page loads jinja2

        offline, about = is_offline(reader, ranking), query_page_facts(reader, ranking)
        most = max((line.runs for line in summary.lines), default=0)
        head = ranking.head
        common = [sources_digest(), index, offline, [[f.label, f.value, f.note] for f in about], most]
        return cls(
            reader=reader,
            maker=SectionMaker(reader, ranking, _with_failures(ranking, summary), most),
            names=[page_name(line.id) for line in summary.lines],
            index=index,
            offline=offline,
            about=about,
            common=_hashed([*common, reader.info_sha256, head.judge, head.rendering]),
        )

    def write(self, pages: PageFolder, at: int, query: Query, ranked: GroupRanking) -> None:
        """Write the page of the query at a place in the index, unless it is there."""
        around = (self.names[at - 1] if at else None, self.names[at + 1] if at + 1 < len(self.names) else None)
        made_of = self._made_of(query, ranked, around)
        if pages.keeps(self.names[at], made_of):
            return
        from harness.report.html.templates import page_template  # noqa: PLC0415 - as above

        text = page_template("query/page.html.j2").render(
            info=self.reader.info,
            g=self.maker.section(1, query, ranked),
            before=around[0],
            after=around[1],
            index=self.index,
            offline=self.offline,
            about=self.about,
        )
        pages.write(self.names[at], made_of, text)

    def _made_of(self, query: Query, ranked: GroupRanking, around: tuple[str | None, str | None]) -> str:
        """Name all that a page is made of: records are never changed, so where they stand is enough."""
        index = self.reader.index
        places = [index.queries[query.id], *(r.place for _, r in sorted(index.rollouts.get(query.id, {}).items()))]
        stand = [[place.path.name, place.offset] for place in places]
        shown = ranked.model_dump(mode="json", exclude=_OF_ONE_RANKING)
        return _hashed([self.common, stand, shown, around, self.maker.failures_of(ranked)])


def _with_failures(ranking: RankingFile, summary: RankingSummary) -> Iterable[GroupRanking]:
    """Return the groups that wait for verdicts: those of a large run are read again only if there are any."""
    return (group for group in ranking.groups if group.failed_verdicts) if summary.failed_verdicts else ()


def _hashed(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
