"""The counters of a node as the text that Prometheus reads.

Spec: Prometheus' text format 0.0.4, and its conventions for names.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final, TypeAlias

from rstreams.web.metric_tables import TABLES, Metric, Table

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
    yield build_info()
    for table in TABLES:
        rows = list(_rows(table, statistics))
        if rows:
            for metric in table.metrics:
                field, name = metric.field, metric.name
                lines = [f"# HELP {name} {metric.help}\n# TYPE {name} {metric.kind}\n"]
                if metric.label:
                    for labels, numbers in rows:
                        lines += _of_mapping(metric, labels, numbers[field])
                else:
                    lines += [f"{name}{labels} {_number(numbers[field])}\n" for labels, numbers in rows]
                yield "".join(lines)


def build_info() -> str:
    """Return the family that tells the versions."""
    facts = {"version": version("rstreams"), "python": platform.python_version()}
    head = "# HELP rstreams_build_info The version of rstreams and of Python.\n# TYPE rstreams_build_info gauge\n"
    return f"{head}rstreams_build_info{labels_text(facts)} 1\n"


def _number(value: float | str) -> float:
    """Return a value as a number: a text says why something is so, and is empty if it is not."""
    return value + 0 if not isinstance(value, str) else int(bool(value))


def _of_mapping(metric: Metric, labels: str, numbers: Numbers) -> Iterator[str]:
    """Yield the lines of a number that consists of several ones, or of a histogram."""
    if metric.kind != "histogram":
        yield from (
            f"{metric.name}{_with(labels, metric.label, each)} {number + 0}\n" for each, number in numbers.items()
        )
        return
    for bound, count in (*numbers["up_to_s"].items(), ("+Inf", numbers["count"])):
        yield f"{metric.name}_bucket{_with(labels, metric.label, bound)} {count}\n"
    yield f"{metric.name}_sum{labels} {numbers['total_s']}\n{metric.name}_count{labels} {numbers['count']}\n"


def _with(labels: str, label: str, value: str) -> str:
    more = labels_text({label: value})
    return f"{labels[:-1]},{more[1:]}" if labels else more


def _rows(table: Table, statistics: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the labels and the numbers of all that a table is about."""
    if not table.labels:
        only = statistics[table.path[0]] if table.path else statistics
        if only is not None:
            yield "", only
        return
    group, *inner = table.path
    for address, numbers in statistics[group].items():
        if not inner:
            yield labels_text({"address": address}), numbers
        else:
            for names, each in _parts(numbers[inner[0]]):
                yield labels_text(dict(zip(table.labels, (address, *names), strict=True))), each


def _parts(
    parts: Mapping[str, Any] | Sequence[Mapping[str, Any]],
) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Yield the names of each part of an address, and its numbers."""
    if isinstance(parts, Mapping):
        yield from (((name,), each) for name, each in parts.items())
        return
    for number, each in enumerate(parts):
        yield ((each["container"], each["name"]) if "container" in each else (str(number),)), each


def labels_text(labels: Mapping[str, str]) -> str:
    """Return labels as they stand behind the name of a metric."""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
