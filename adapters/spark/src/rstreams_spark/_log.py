"""What the source and the sink tell the readers of Spark's logs: events, like those of `rstreams.logs`.

They are records of the logger `rstreams.spark`, in processes that Spark starts, and in which no program sets up
`logging`. Therefore the sentences are lines on standard error, which Spark keeps in the log of the driver or of the
executor. `RSTREAMS_LOG` chooses a format with the time, the level and the name of the event.
"""

from __future__ import annotations

import logging
import os
import sys
from logging import INFO, WARNING
from typing import Final

from rstreams.logs import LogEvent

_LOGGER: Final = "rstreams.spark"
_SENTENCE: Final = "%(where)s: %(what)s"

CONNECTION_LOST = LogEvent("spark.connection_lost", _LOGGER, WARNING, _SENTENCE)
NOT_CONNECTED_YET = LogEvent("spark.not_connected_yet", _LOGGER, WARNING, _SENTENCE)
CONNECTED = LogEvent("spark.connected", _LOGGER, INFO, _SENTENCE)
LINK_LOST = LogEvent("spark.link_lost", _LOGGER, WARNING, _SENTENCE)
LOG_NOT_SERVED = LogEvent("spark.log_not_served", _LOGGER, WARNING, _SENTENCE)
MESSAGES_GONE = LogEvent("spark.messages_gone", _LOGGER, WARNING, _SENTENCE)
MESSAGES_LEFT_OUT = LogEvent("spark.messages_left_out", _LOGGER, WARNING, _SENTENCE)
PEER_KEEPS_MESSAGES = LogEvent("spark.peer_keeps_messages", _LOGGER, WARNING, _SENTENCE)
TWO_READERS = LogEvent("spark.two_readers", _LOGGER, WARNING, _SENTENCE)
BATCH_NOT_COMMITTED = LogEvent("spark.batch_not_committed", _LOGGER, WARNING, _SENTENCE)
BATCH_STAYS_EMPTY = LogEvent("spark.batch_stays_empty", _LOGGER, WARNING, _SENTENCE)
ROWS_READ = LogEvent("spark.rows_read", _LOGGER, INFO, _SENTENCE)
NO_ROWS = LogEvent("spark.no_rows", _LOGGER, WARNING, _SENTENCE)
ROWS_SENT = LogEvent("spark.rows_sent", _LOGGER, INFO, _SENTENCE)
ROWS_NOT_ACCEPTED = LogEvent("spark.rows_not_accepted", _LOGGER, WARNING, _SENTENCE)
ROWS_REFUSED = LogEvent("spark.rows_refused", _LOGGER, WARNING, _SENTENCE)

EVENTS: Final = tuple(value for value in list(globals().values()) if isinstance(value, LogEvent))
"""All of them; the guide to the events of the log explains each."""


def say(event: LogEvent, where: str, what: str) -> None:
    """Log an event.

    Args:
        event: The event.
        where: The source or the sink, with the address and the peer, and the query as far as it is known.
        what: What has happened there.
    """
    event.tell(where, where=where, what=what)


class _Lines(logging.Handler):
    """Writes each record as a line on what standard error is now."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(f"{self.format(record)}\n")
        sys.stderr.flush()


_logger: Final = logging.getLogger(_LOGGER)

if not os.environ.get("RSTREAMS_LOG"):
    _logger.addHandler(_Lines())
    _logger.setLevel(INFO)
    _logger.propagate = False
