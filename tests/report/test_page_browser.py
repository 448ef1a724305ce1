"""The page in a real browser: it fits, asks for nothing, runs nothing, and can be read."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from harness.archive.page_folder import page_name
from harness.report.html.comparison_page import write_comparison_page
from harness.report.html.pair_page import pair_page
from harness.report.html.run_page import write_page
from harness.report.summary.why import explain_pair, find_pair
from tests.comparisons_by_hand import make, stored
from tests.report.archives_by_hand import EVIL, BuiltArchive, build, crowd, hostile


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    executable = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if executable is None:
        pytest.skip("no system browser: chromium, chromium-browser or google-chrome")
    sync_api = pytest.importorskip("playwright.sync_api", reason="the playwright package is not installed")
    with sync_api.sync_playwright() as play:
        opened = play.chromium.launch(executable_path=executable, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@dataclass
class Visit:
    """A page open in the browser, and what it asked for and complained of."""

    page: object
    requests: list[str]
    complaints: list[str]


@pytest.fixture
def visit(browser) -> Iterator[Callable[..., Visit]]:
    contexts = []

    def go(target: Path, width: int, scheme: str = "light", fragment: str = "", *, scripts: bool = True) -> Visit:
        context = browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme=scheme, has_touch=True, java_script_enabled=scripts
        )
        contexts.append(context)
        page, requests, complaints = context.new_page(), [], []
        page.on("request", lambda r: requests.append(r.url))
        page.on("console", lambda m: complaints.append(m.text))
        page.on("pageerror", lambda e: complaints.append(str(e)))
        page.goto(target.as_uri() + fragment)
        return Visit(page, requests, complaints)

    yield go
    for context in contexts:
        context.close()


class Pages(dict[str, Path]):
    """Pages to look at, each written when it is looked at first."""

    def __init__(self, folder: Path, evil: BuiltArchive) -> None:
        self.folder = folder
        self.archives = {
            "evil": lambda: evil,
            "thirteen": cache(lambda: build(folder / "a", crowd(13))),  # for a page of its own, and one of a pair
            "one": lambda: build(folder / "b", crowd(1), offline=True),
            "many": lambda: build(folder / "c", *[hostile(3)] * 2, *(crowd(3, query=f"Q{i}?") for i in range(10))),
        }
        self.comparisons = {
            "evil comparison": lambda: make(5, evil=EVIL, failed=True, seed=2),
            "comparison": lambda: make(12, offline=True),
            "four sides": lambda: make(4, sides=4),
        }
        self.pairs = {"evil pair": ("evil", 2, 3), "pair": ("thirteen", 1, 4)}

    def __missing__(self, name: str) -> Path:
        target = self.folder / f"{name}.html"
        if name == "one of many":
            target = self["many"].with_suffix("") / page_name("query-0")
        elif name in self.archives:
            archive = self.archives[name]()
            write_page(archive.reader, archive.ranking, target)
        elif name in self.comparisons:
            made = self.comparisons[name]()
            with stored(self.folder / name, made) as reader:
                write_comparison_page(reader, made.comparison, target)
        else:
            of, *two = self.pairs[name]
            archive = self.archives[of]()
            chosen = find_pair(archive.reader, archive.ranking, next(archive.reader.queries()), *two)
            why = explain_pair(archive.reader, archive.ranking, chosen)
            target.write_text(pair_page(archive.reader, archive.ranking, chosen, why), "utf-8")
        self[name] = target
        return target


@pytest.fixture(scope="module")
def pages(tmp_path_factory, evil) -> Pages:
    return Pages(tmp_path_factory.mktemp("pages"), evil)


PAGES = "evil,thirteen,one,many,one of many,evil comparison,comparison,four sides,pair,evil pair".split(",")
OPEN_ALL = "document.querySelectorAll('details').forEach(d => d.open = true)"
WIDTHS = "[document.documentElement.scrollWidth, window.innerWidth]"


@pytest.mark.few(3)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [375, 1280])
@pytest.mark.parametrize("name", PAGES)
def test_it_fits_the_window_asks_for_nothing_and_runs_nothing(name, width, scheme, pages, visit):
    seen = visit(pages[name], width, scheme)
    for script in ("0", OPEN_ALL):  # as it opens, and with everything unfolded
        seen.page.evaluate(script)
        wide, window = seen.page.evaluate(WIDTHS)
        assert wide <= window
    assert seen.page.evaluate("window.pwned") is None
    assert seen.requests == [pages[name].as_uri()]
    assert seen.complaints == []


def test_a_match_opens_by_tap_and_its_link_opens_the_rollout(pages, visit):
    seen = visit(pages["evil"], 375)
    match = seen.page.locator("details.match").first
    link = match.locator(".body a[href^='#q1-r']").first
    assert not link.is_visible()
    match.locator("> summary").tap()
    link.tap()
    seen.page.locator(link.get_attribute("href")).wait_for(state="visible", timeout=5000)


def test_a_link_from_the_bracket_opens_its_match_without_any_script(pages, visit):
    seen = visit(pages["thirteen"], 1280, scripts=False)
    link = seen.page.locator("a.box[href^='#q1-m']").first
    body = seen.page.locator(link.get_attribute("href"))
    assert not body.is_visible()
    link.click()
    body.wait_for(state="visible", timeout=5000)
    assert seen.complaints == []


def test_the_brackets_lines_meet_the_boxes_they_join(pages, visit):
    middle = "box => { const {y, height} = box.getBoundingClientRect(); return y + height / 2; }"
    boxes = f"rounds => rounds.map(round => [...round.querySelectorAll('li.cell .box')].map({middle}))"
    centres = visit(pages["thirteen"], 1280).page.locator(".round").evaluate_all(boxes)
    assert [len(c) for c in centres] == [8, 4, 2, 1, 1]
    for left, right in pairwise(centres):
        step = len(left) // len(right)
        for i, centre in enumerate(right):
            assert centre == pytest.approx(sum(left[i * step : (i + 1) * step]) / step, abs=1.0)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["thirteen", "many", "one of many"])
def test_print_is_complete_and_no_wider_than_paper(name, pages, visit):
    page = visit(pages[name], 690).page  # A4 with half an inch of margin
    page.emulate_media(media="print")
    wide, window = page.evaluate(WIDTHS)
    assert wide <= window
    hidden = "[...document.querySelectorAll('details > :not(summary)')].filter(e => !e.getBoundingClientRect().height)"
    assert page.evaluate(f"{hidden}.length") == 0
    assert page.locator("table.ranking thead").count() == page.locator("table.ranking thead:visible").count()
    clipped = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > innerWidth)"
    assert page.evaluate(f"{clipped}.map(e => e.getAttribute('aria-label'))") == []


def shown_rows(page) -> list[str]:
    rows = page.locator("table.index tbody tr:visible")
    return rows.evaluate_all("rows => rows.map(row => row.querySelector('td').textContent)")


def test_the_index_is_filtered_and_sorted_by_keyboard(pages, visit):
    seen = visit(pages["many"], 1280)
    page = seen.page
    every = [str(n) for n in range(1, 13)]
    assert shown_rows(page) == every
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.type") == "search"
    page.keyboard.type("q3?")
    assert shown_rows(page) == ["6"]
    assert page.locator("output").text_content() == "1 of 12 queries"
    for _ in range(4):
        page.keyboard.press("Backspace")
    assert shown_rows(page)[-1] == "12"
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    assert len(shown_rows(page)) == page.locator("tr[data-signal=ok]").count()
    page.locator("form.filter button[type=reset]").focus()
    page.keyboard.press("Enter")
    page.locator("output", has_text="12 of 12 queries").wait_for(timeout=5000)  # a function the page's policy refuses
    page.locator("th button").first.focus()
    page.keyboard.press("Space")
    assert shown_rows(page) == every[::-1]
    assert page.locator("th[aria-sort=descending]").count() == 1
    page.locator("th button", has_text="Score").focus()
    page.keyboard.press("Enter")
    cells = page.locator("tbody td:nth-child(4):not([data-v=''])")
    scores = cells.evaluate_all("cells => cells.map(cell => Number(cell.dataset.v))")
    assert len(scores) > 10
    assert scores == sorted(scores, reverse=True)
    assert page.evaluate("window.pwned") is None
    assert seen.complaints == []


def test_filters_stand_in_the_address_and_come_back_with_it(pages, visit):
    page = visit(pages["comparison"], 1280).page
    page.locator("select[name=outcome]").select_option("won")
    page.locator("th button", has_text="Margin").click()
    won, state = shown_rows(page), page.url.partition("#")[2]
    assert state == "ba.outcome=won&ba.sort=2-"
    assert 1 < len(won) < 12
    again = visit(pages["comparison"], 1280).page
    again.goto(f"{pages['comparison'].as_uri()}#{state}")
    assert shown_rows(again) == won
    again.locator("form.filter button[type=reset]").click()
    again.wait_for_url(lambda url: "=" not in url.partition("#")[2], timeout=5000)
    assert len(shown_rows(again)) == 12


def test_slash_finds_and_j_and_k_go_through_the_rows_that_are_shown(pages, visit):
    page = visit(pages["comparison"], 1280).page
    page.keyboard.press("/")
    page.keyboard.type("planet 1?")
    page.keyboard.press("Escape")
    assert len(shown_rows(page)) == 2  # 1 and 11
    for key in "jjkj":
        page.keyboard.press(key)
    link = page.evaluate("document.activeElement.hash")
    body = page.locator(link)
    assert not body.is_visible()
    page.keyboard.press("Enter")
    body.wait_for(state="visible", timeout=5000)


def test_on_a_phone_the_index_is_sorted_by_a_list(pages, visit):
    page = visit(pages["many"], 375).page
    page.locator("select.sorting").select_option("0-")
    rows = page.locator("table.index tbody tr")
    assert "Q9?" in rows.first.text_content()


def test_without_scripts_all_rows_can_be_read_and_no_control_stands_there_in_vain(pages, visit):
    seen = visit(pages["many"], 1280, scripts=False)
    assert len(shown_rows(seen.page)) == 12
    assert not seen.page.locator("form.filter").is_visible()
    assert seen.complaints == []


def test_a_changed_byte_of_the_script_is_refused_by_the_browser(pages, visit, tmp_path):
    source = pages["many"].read_text("utf-8")
    changed = tmp_path / "changed.html"
    changed.write_text(source.replace('"use strict";', '"use Strict";'), "utf-8")
    seen = visit(changed, 1280)
    assert [("Content Security Policy" in text and "sha256" in text) for text in seen.complaints] == [True]
    assert len(shown_rows(seen.page)) == 12
    assert not seen.page.locator("form.filter").is_visible()


WORST_CONTRAST = """() => {
  const channel = v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = css => {
    const [r, g, b] = css.match(/[0-9]+/g).map(v => channel(v / 255));
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const behind = e => {
    for (; e; e = e.parentElement) {
      const css = getComputedStyle(e).backgroundColor;
      if (!css.startsWith('rgba(0, 0, 0, 0')) return css;
    }
    return 'rgb(255, 255, 255)';
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let worst = [99, ''];
  for (let n; n = texts.nextNode();) {
    if (!n.data.trim()) continue;
    const e = n.parentElement;
    const [low, high] = [light(getComputedStyle(e).color), light(behind(e))].sort((p, q) => p - q);
    const ratio = (high + .05) / (low + .05);
    if (ratio < worst[0]) worst = [ratio, e.className + ': ' + n.data.slice(0, 40)];
  }
  return worst;
}"""


@pytest.mark.nightly
def test_text_has_contrast_enough_to_read(pages, visit):
    for name in ("evil", "many", "comparison", "evil pair", "pair"):
        for scheme in ("light", "dark"):
            worst, where = visit(pages[name], 1280, scheme).page.evaluate(WORST_CONTRAST)
            assert worst >= 4.5, where
