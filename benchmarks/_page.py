"""The option `--page`: a part of a page of the documentation that a benchmark writes anew, between two comments."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Page:
    """A page, and the comments between which a benchmark writes.

    Attributes:
        path: The file.
        begin: The first comment with its line end, such as `<!-- tables of benchmarks.node: begin -->`.
        end: The last one.
    """

    path: Path
    begin: str
    end: str

    def refresh(self, text: str) -> None:
        """Write the text between the comments."""
        before, _, rest = self.path.read_text(encoding="utf-8").partition(self.begin)
        _, _, after = rest.partition(self.end)
        self.path.write_text(f"{before}{self.begin}\n{text}\n{self.end}{after}", encoding="utf-8")


def add_option(parser: argparse.ArgumentParser, benchmark: str) -> None:
    """Add the option; its value is a `Page` with the comments of a benchmark, which is looked for at once."""

    def found(name: str) -> Page:
        edges = (f"<!-- tables of {benchmark}: {edge} -->\n" for edge in ("begin", "end"))
        page = Page(Path(name), *edges)
        try:
            text = page.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            msg = f"{name}: {error}"
            raise argparse.ArgumentTypeError(msg) from None
        if page.end not in text.partition(page.begin)[2]:
            msg = f"{name}: a page with {page.begin.strip()!r} and {page.end.strip()!r}"
            raise argparse.ArgumentTypeError(msg)
        return page

    parser.add_argument(
        "--page", type=found, metavar="FILE", help="also write tables into a page, between its comments"
    )
