"""The numbers of a client's links as the text that Prometheus reads, for the HTTP of the program itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from rstreams.net.links.link_totals import LinkTotals
from rstreams.web.metric_tables import CLIENT, Metric
from rstreams.web.metrics import build_info, labels_text

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class HasLinks(Protocol):
    """A connection: of `rstreams`, `rstreams.aio` or `rstreams.blocking`."""

    def link_totals(self) -> Sequence[LinkTotals]:
        """Return the numbers of all links to each address together."""
        ...


def client_metrics_text(*connections: HasLinks) -> str:
    """Return the numbers of the links of connections as text for Prometheus.

    A program shows it with the web framework that it has. Links to the same address count together, also those of
    several connections. The totals do not fall when a link ends; when a connection is left out, they begin anew.

    Args:
        *connections: The connections, open or closed.

    Context: Where `connection.link_totals()` may be called; does not wait.
    """
    rows: dict[tuple[str, str], list[LinkTotals]] = {}
    for connection in connections:
        for each in connection.link_totals():
            rows.setdefault((each.address, each.does), []).append(each)
    parts = [build_info()]
    for metric in CLIENT.metrics if rows else ():
        parts.append(f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.kind}\n")
        for (address, does), totals in rows.items():
            labels = labels_text({"address": address, "direction": does})
            parts.append(f"{metric.name}{labels} {_together(metric, totals)}\n")
    return "".join(parts)


def _together(metric: Metric, totals: Iterable[LinkTotals]) -> float:
    numbers: list[float] = [getattr(each, metric.field) for each in totals]
    return max(numbers) if metric.field == "oldest_s" else sum(numbers)
