"""The errors of this adapter besides those of `rstreams.errors`.

Spark passes on an exception from Python only as text. Therefore the text of each has all details. A wrong option or
column is a `rstreams.errors.ConfigError`.
"""

from __future__ import annotations

from rstreams.errors import RStreamsError

__all__ = ["SinkFailed", "SourceFailed", "UnparsableMessage"]


class SourceFailed(RStreamsError):
    """The streaming source cannot go on; messages that Spark has not committed are delivered again after a restart."""


class UnparsableMessage(RStreamsError):
    """A message cannot be made a row."""


class SinkFailed(RStreamsError):
    """The receiver did not accept a row, or its outcome is unknown."""
