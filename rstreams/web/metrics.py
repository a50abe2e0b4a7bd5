"""The counters of a node as the text that Prometheus reads.

Spec: Prometheus' text format 0.0.4, and its conventions for names.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final, TypeAlias

from rstreams.web.metric_tables import TABLES, Table

Numbers: TypeAlias = Mapping[str, Any]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def metrics_text(statistics: Mapping[str, Any]) -> str:
    """Return the counters of a node as text for Prometheus.

    Args:
        statistics: What an item of the address `$statistics` is, or `node.statistics().as_dict()`.

    Context: Any thread; does not block.
    """
    return "".join(families(statistics))


def families(statistics: Mapping[str, Any]) -> Iterator[str]:
    """Yield the text of `metrics_text`, a family of numbers at a time."""
    facts = {"version": version("rstreams"), "python": platform.python_version()}
    yield "# HELP rstreams_build_info The version of rstreams and of Python.\n# TYPE rstreams_build_info gauge\n"
    yield f"rstreams_build_info{_labels(facts)} 1\n"
    for table in TABLES:
        rows = list(_rows(table, statistics))
        if rows:
            for metric in table.metrics:
                field, name = metric.field, metric.name
                lines = [f"# HELP {name} {metric.help}\n# TYPE {name} {metric.kind}\n"]
                lines += [f"{name}{labels} {numbers[field] + 0}\n" for labels, numbers in rows]
                yield "".join(lines)


def _rows(table: Table, statistics: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the labels and the numbers of all that a table is about."""
    if not table.path:
        yield "", statistics
        return
    group, *inner = table.path
    for address, numbers in statistics[group].items():
        if not inner:
            yield _labels({"address": address}), numbers
        else:
            for names, each in _parts(numbers[inner[0]]):
                yield _labels(dict(zip(table.labels, (address, *names), strict=True))), each


def _parts(
    parts: Mapping[str, Any] | Sequence[Mapping[str, Any]],
) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Yield the names of each part of an address, and its numbers."""
    if isinstance(parts, Mapping):
        yield from (((name,), each) for name, each in parts.items())
        return
    for number, each in enumerate(parts):
        yield ((each["container"], each["name"]) if "container" in each else (str(number),)), each


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
