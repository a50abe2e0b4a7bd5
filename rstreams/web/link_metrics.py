"""The numbers of single links as the text that Prometheus reads.

There may be ten thousand links. Therefore a page is made in parts, and other tasks run between two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from rstreams.web.metric_tables import LINK
from rstreams.web.metrics import labels_text

PART: Final = 128
"""How many links are written at a time: about a millisecond of work."""

_LONGEST: Final = 200
"""The most characters of a label: peers choose their names."""


class LinkNumbers(NamedTuple):
    """The numbers of one link.

    Attributes:
        number: Its number at the node.
        names: Returns what the labels say, in the order of the table.
        blocked_s: The numbers of the table, as those of `LinkInfo`.
        credit: Likewise.
        unsettled: Likewise.
        oldest_s: Likewise.
    """

    number: int
    names: Callable[[], tuple[str, ...]]
    blocked_s: float
    credit: int
    unsettled: int
    oldest_s: float


class LinkMetrics:
    """Writes pages; what the labels of a link are is made once."""

    def __init__(self) -> None:
        self._labels: dict[int, str] = {}

    def write(self, links: Iterator[LinkNumbers]) -> Iterator[str]:
        """Yield the parts of a page; an empty one means that there is more to do."""
        before, self._labels = self._labels, {}
        used = set(before.values())
        families: list[list[str]] = [
            [f"# HELP {each.name} {each.help}\n# TYPE {each.name} {each.kind}\n"] for each in LINK.metrics
        ]
        blocked, credit, unsettled, oldest = (each.name for each in LINK.metrics)
        add_blocked, add_credit, add_unsettled, add_oldest = (each.append for each in families)
        while part := list(islice(links, PART)):
            for number, names, blocked_s, granted, sent, oldest_s in part:
                labels = before.get(number)
                if labels is None:
                    labels = _labels_of(number, names(), used)
                    used.add(labels)
                self._labels[number] = labels
                add_blocked(f"{blocked}{labels} {blocked_s}\n")
                add_credit(f"{credit}{labels} {granted}\n")
                add_unsettled(f"{unsettled}{labels} {sent}\n")
                add_oldest(f"{oldest}{labels} {oldest_s}\n")
            yield ""
        if self._labels:
            yield from map("".join, families)


def _labels_of(number: int, names: tuple[str, ...], used: set[str]) -> str:
    """Return the labels of a link; the number makes them different from those of a link with the same name."""
    values = [name[:_LONGEST] for name in names]
    labels = labels_text(dict(zip(LINK.labels, values, strict=True)))
    if labels in used:
        values[LINK.labels.index("link")] += f" #{number}"
        labels = labels_text(dict(zip(LINK.labels, values, strict=True)))
    return labels
