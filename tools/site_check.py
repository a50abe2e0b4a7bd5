"""Look at the site that `make docs` has built, as its readers do: in a browser, from files.

    python tools/site_check.py

Every page is shown 1,280 and 390 pixels wide, and must not be wider; no block of code and no table may be cut. Every
link to a page of the site must lead to it, and to the place in it. No page may load anything from elsewhere. The search
must find the words of tools/site_words.toml, each on its page. A tab that is chosen on one page is chosen on the next.
"""

from __future__ import annotations

import sys
import time
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

from browser import Page, browser

ROOT = Path(__file__).parents[1]
SITE = ROOT / "build" / "docs"
WIDTHS = (1280, 390)

CUT = """[...document.querySelectorAll("body, .md-content :is(pre, pre > code, table, img)")]
    .filter(each => each.getBoundingClientRect().width > 0)
    .filter(each => each.scrollWidth > each.clientWidth + 1 && each.clientWidth > 0
        || each.getBoundingClientRect().right > innerWidth + 1)
    .map(each => each.tagName.toLowerCase() + ": " + each.textContent.trim().slice(0, 60))"""

OPEN_SEARCH = """(async () => {
    document.querySelector(".md-search__button").click()
    window.inside = () => [...document.querySelectorAll("*")].find(each => each.shadowRoot)?.shadowRoot
    const soon = () => new Promise(resolve => setTimeout(resolve, 50))
    for (let turn = 0; turn < 400 && !inside()?.querySelector("input"); turn++) await soon()
    inside().querySelector("input").focus()
})()"""
FOUND = "[...inside().querySelectorAll('ol a')].map(each => each.href)"
TAB = """[...document.querySelectorAll(".tabbed-labels label")].find(each => each.textContent.trim() === "trio")"""
PATIENCE_S = 20.0


class _Links(HTMLParser):
    """The links, the places and the loaded files of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        of_it = dict(attrs)
        self.places.update(filter(None, (of_it.get("id"), of_it.get("name"))))
        link = of_it.get("href") or of_it.get("src")
        if link and tag == "a":
            self.links.append(link)
        elif link:
            self.loaded.append(link)


def read_pages() -> dict[Path, _Links]:
    """Return the pages of the site, each with its links."""
    pages: dict[Path, _Links] = {}
    for file in sorted(SITE.rglob("*.html")):
        if file.name == "404.html":  # it names its styles from the root of a server, and has none here
            continue
        pages[file] = _Links()
        pages[file].feed(file.read_text(encoding="utf-8"))
    return pages


def dead_links(pages: dict[Path, _Links]) -> Iterator[str]:
    """Yield a line for each link that leads nowhere, and for each file from elsewhere."""
    for page, of_it in pages.items():
        here = page.relative_to(SITE)
        for link in of_it.links + of_it.loaded:
            path, place = urldefrag(link)
            if urlsplit(path).scheme:
                if link in of_it.loaded and not path.startswith("data:"):
                    yield f"{here}: loads {link}"
                continue
            there = (page.parent / unquote(path)).resolve() if path else page
            if not there.is_file():
                yield f"{here}: {link} leads nowhere"
            elif place and there in pages and unquote(place) not in pages[there].places:
                yield f"{here}: {link} has no such place"


def cut(page: Page, pages: dict[Path, _Links]) -> Iterator[str]:
    """Yield a line for each thing that is wider than the window, or than its box."""
    for file in pages:
        page.show(file.as_uri())
        for width in WIDTHS:
            page.width(width)
            for each in page.run(CUT):
                yield f"{file.relative_to(SITE)} at {width} pixels is cut: {each}"


def not_found(page: Page) -> Iterator[str]:
    """Yield a line for each word that the search does not find on its page."""
    words: dict[str, str] = tomllib.loads((ROOT / "tools" / "site_words.toml").read_text(encoding="utf-8"))
    page.width(WIDTHS[0])
    for word, wanted in words.items():
        page.show((SITE / "index.html").as_uri())
        page.run(OPEN_SEARCH)
        page.call("Input.insertText", text=word)
        found: list[str] = []
        end = time.monotonic() + PATIENCE_S
        while not found and time.monotonic() < end:
            time.sleep(0.05)
            found = page.run(FOUND)
        if not _has(found, wanted):
            yield f"search: {word!r} does not find {wanted}, but {[urlsplit(link).path for link in found[:10]]}"


def forgotten(page: Page) -> Iterator[str]:
    """Yield a line if the choice of a tab does not hold on another page."""
    page.show((SITE / "guides" / "delivery.html").as_uri())
    page.run(f"{TAB}.click()")
    page.show((SITE / "guides" / "publish.html").as_uri())
    if not page.run(f"document.getElementById({TAB}.htmlFor).checked"):
        yield "guides/publish.html: the tab that was chosen on guides/delivery.html is not chosen"


def _has(links: list[str], page: str) -> bool:
    return any(urlsplit(link).path.endswith(f"/{page}") for link in links)


def main() -> None:
    """Print what is wrong; exit with 1 if something is."""
    pages = read_pages()
    wrong = list(dead_links(pages))
    with browser() as page:
        wrong += not_found(page)
        wrong += forgotten(page)
        wrong += cut(page, pages)
    for line in wrong:
        print(line)
    print(f"site-check: {len(pages)} pages, {len(wrong)} faults")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
