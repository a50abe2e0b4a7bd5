"""The reason of a failed query stands first in what Spark shows.

PySpark passes on an exception as its traceback, which ends with the text. An error of this adapter says all in its
text, and needs no traceback. A process of PySpark ends with such an exception; therefore the setting reaches nothing
else. A process of the user keeps its tracebacks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rstreams.errors import RStreamsError

_OF_SPARK: Final = "PYTHON_WORKER_FACTORY_"
"""The beginning of the names of variables that PySpark sets for its own processes."""


@contextmanager
def reason_first() -> Iterator[None]:
    """Have Spark show an `RStreamsError` of the block without its traceback."""
    try:
        yield
    except RStreamsError:
        if any(name.startswith(_OF_SPARK) for name in os.environ):
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise
