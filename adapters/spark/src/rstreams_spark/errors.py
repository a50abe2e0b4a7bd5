"""What this adapter raises beside the errors of `rstreams.errors`.

Spark passes on an exception from Python only as text, so each of these says in its text all there is to know. A wrong
option or column is a `rstreams.errors.ConfigError`.
"""

from __future__ import annotations

from rstreams.errors import RStreamsError

__all__ = ["SinkFailed", "SourceFailed", "UnparsableMessage"]


class SourceFailed(RStreamsError):
    """The streaming source cannot go on; what Spark has not committed is delivered again after a restart."""


class UnparsableMessage(RStreamsError):
    """A message cannot be made a row."""


class SinkFailed(RStreamsError):
    """A row was not accepted by the receiver, or it is unknown whether it was."""
