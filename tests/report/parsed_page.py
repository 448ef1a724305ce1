"""A page taken apart: its elements, its texts, and what stands under each id."""

from html.parser import HTMLParser

from harness.report.html.run_page import render_page
from tests.report.archives_by_hand import BuiltArchive

VOID = {"meta", "link", "br", "hr", "img", "input", "wbr"}
TAGS = set(
    "html head meta link title style body header main footer nav section h1 h2 h3 h4 h5 "
    "h6 p dl dt dd div span bdi b i code a ul ol li table thead tbody tr th td details summary".split()
)


class ParsedPage(HTMLParser):
    """The page's elements and attributes, its text, and the text of each element with an id."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.under: dict[str, list[str]] = {}
        self.style = ""
        self.faults: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        attributes = {name: value or "" for name, value in attrs}
        self.elements.append((tag, attributes))
        if tag not in VOID:
            self.open.append((tag, attributes.get("id")))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop()[0] != tag:
            self.faults.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data):
        if self.open and self.open[-1][0] == "style":
            self.style += data
            return
        self.texts.append(data)
        for _, name in self.open:
            if name:
                self.under.setdefault(name, []).append(data)

    def text(self, name: str | None = None) -> str:
        return " ".join(" ".join(self.texts if name is None else self.under[name]).split())

    def ids(self) -> list[str]:
        return [a["id"] for _, a in self.elements if "id" in a]

    def links(self) -> list[str]:
        return [a["href"] for t, a in self.elements if t == "a"]

    def count(self, tag: str, name: str) -> int:
        return sum(t == tag and name in a.get("class", "").split() for t, a in self.elements)


def page_of(built: BuiltArchive) -> ParsedPage:
    return ParsedPage(render_page(built.reader, built.ranking))
