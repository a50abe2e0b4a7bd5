"""The short way of small batches: Spark gets their rows with its plan, and needs no Python worker to read them.

Usually a task reads a part of a batch, in a Python worker of its executor. That takes tens of milliseconds, however few
rows there are. PySpark's runner has a shorter way, for readers of another kind: when Spark has asked for the parts of a
batch, the runner asks the reader for the rows (`getCache`). Spark keeps them as a block, and its tasks read that.

PySpark knows readers of that kind by a class, and does not ask them for their latest offset. Therefore a reader has
that class only while rows wait to be asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader

if TYPE_CHECKING:
    import pyarrow as pa

    _ReaderWithRows: type[DataSourceStreamReader] | None
else:
    try:
        from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper as _ReaderWithRows
    except ImportError:  # another version of PySpark: all batches go the usual way
        _ReaderWithRows = None

MOST_BYTES: Final = 1024 * 1024
"""The most bytes of a batch that goes the short way: its one part is then one block."""


class ShortWay(DataSourceStreamReader):
    """A reader that can hand over the rows of a batch together with its parts."""

    _waiting: Iterator[pa.RecordBatch] | None = None

    def hand_over(self, rows: Iterator[pa.RecordBatch]) -> None:
        """Have PySpark take these rows, which are those of the only part that it is given now."""
        if _ReaderWithRows is not None:
            self._waiting = rows

    def getCache(  # noqa: N802 - PySpark's name
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> Iterator[pa.RecordBatch] | None:
        """Return the rows that wait, once."""
        rows, self._waiting = self._waiting, None
        return rows

    @property  # type: ignore[misc] # it need not be written
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The class that `isinstance` sees beside the true one."""
        return type(self) if self._waiting is None or _ReaderWithRows is None else _ReaderWithRows
