"""The short way of small batches: Spark gets their rows with its plan, and needs no Python worker to read them.

Usually a task reads a part of a batch, in a Python worker of its executor. That takes tens of milliseconds, however few
rows there are. PySpark's runner has a shorter way, for readers of another kind: when Spark has asked for the parts of a
batch, the runner asks the reader for the rows (`getCache`). Spark keeps them as a block, and its task reads that.

PySpark knows readers of that kind by a class, and does not ask them for their latest offset. Therefore a reader has
that class only while rows wait to be asked for.

The class is private to PySpark. The rows are an extra: Spark always gets the parts also, and its tasks can read them.
The first batch of a runner goes the usual way, because it shows that executors can read parts. So does a batch of more
than one part. All batches go the usual way if one of these is true:

- PySpark has no such class, or its `getCache` takes other arguments.
- PySpark did not ask for rows that waited.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import datasource_internal
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

if TYPE_CHECKING:
    import pyarrow as pa

MOST_BYTES: Final = 1024 * 1024
"""The most bytes of a batch that goes the short way: its one part is then one block."""


class ShortWay(DataSourceStreamReader):
    """A reader that can hand over the rows of a batch together with its parts."""

    _waiting: Iterator[pa.RecordBatch] | None = None
    _is_open = True
    """Whether PySpark has asked for all rows that waited."""
    _reads_first = True
    """Whether no batch with parts has been planned."""

    def may_hand_over(self, parts: Sequence[InputPartition]) -> bool:
        """Return whether the batch of these parts may go the short way; called once for each batch."""
        is_first, self._reads_first = self._reads_first, self._reads_first and not parts
        return not is_first and len(parts) == 1

    def hand_over(self, rows: Iterator[pa.RecordBatch] | None) -> None:
        """Have PySpark take these rows, which are those of the only part that it is given now; None: there are none."""
        if self._is_open and class_with_rows() is not None:
            self._waiting = rows

    def end_hand_over(self) -> None:
        """Drop rows that PySpark has not asked for; from then on none are handed over."""
        if self._waiting is not None:
            self._waiting = None
            self._is_open = False

    def getCache(  # noqa: N802 - PySpark's name
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> Iterator[pa.RecordBatch] | None:
        """Return the rows that wait, once."""
        rows, self._waiting = self._waiting, None
        return rows

    @property  # type: ignore[misc] # it need not be written
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The class that `isinstance` sees beside the true one."""
        return type(self) if self._waiting is None else class_with_rows() or type(self)


def class_with_rows() -> type | None:
    """Return PySpark's class of readers that it asks for rows; None if this PySpark has another way."""
    found: type | None = getattr(datasource_internal, "_SimpleStreamReaderWrapper", None)
    asked = getattr(found, "getCache", None)
    if asked is None or list(signature(asked).parameters) != ["self", "start", "end"]:
        return None
    return found
