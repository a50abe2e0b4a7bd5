"""What rstreams tells in the log: events, as records of Python's `logging`, and two formats for them.

A program needs nothing of this: the loggers have names that begin with `rstreams`, and `logging` does the rest. Each
record has `record.event`, the name of the event, and `record.fields`, its fields by name:

    class Alerts(logging.Handler):
        def emit(self, record):
            if getattr(record, "event", "") == "queue.full":
                wake_someone(record.fields["address"])

`RSTREAMS_LOG=json` or `RSTREAMS_LOG=text`, in the environment of a program, calls `configure` when it imports rstreams.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias

from rstreams._checks.choices import require_choice
from rstreams._events.event import LogEvent, printable
from rstreams._events.table import EVENTS
from rstreams.errors import ConfigError

__all__ = ["EVENTS", "JsonLines", "LogEvent", "TextLines", "configure", "handler_for"]

LogFormat: TypeAlias = Literal["text", "json"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]

_VARIABLE: Final = "RSTREAMS_LOG"

_MOST_TRACEBACK: Final = 20_000
"""The most characters of a traceback; of a longer one the end is kept."""


class TextLines(logging.Formatter):
    """Records as text: time, level, sentence, and the name of the event.

    A traceback follows in lines that begin with four spaces. No other line of a record of rstreams is a second line.
    """

    def __init__(self) -> None:
        """Make a formatter."""
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name in `logging`
        """Return the line of a record."""
        text, event = super().formatMessage(record), getattr(record, "event", None)
        return text if event is None else f"{text} [{event}]"

    def formatException(self, ei: object) -> str:  # noqa: N802 - the name in `logging`
        """Return the lines of a traceback."""
        text = super().formatException(ei)[-_MOST_TRACEBACK:]  # type: ignore[arg-type] # as `logging` gives it
        return "\n".join(f"    {printable(line)}" for line in text.splitlines())


class JsonLines(logging.Formatter):
    """Records as JSON: one object a line, in ASCII.

    It has `time` (UTC), `level`, `logger`, `event`, `message`, and the fields of the event. `traceback` is there if an
    exception was raised, and `more` in a line that stands for so many. Records of other programs have no `event`.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        moment = datetime.fromtimestamp(record.created, UTC)
        told: dict[str, object] = {
            "time": f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z",
            "level": record.levelname,
            "logger": record.name,
        }
        event = getattr(record, "event", None)
        if event is not None:
            told["event"] = event
        told["message"] = record.getMessage()
        told.update(getattr(record, "fields", {}))
        if record.exc_info:
            told["traceback"] = self.formatException(record.exc_info)[-_MOST_TRACEBACK:]
        return json.dumps(told, default=str)


def handler_for(log_format: LogFormat) -> logging.Handler:
    """Return a handler of `logging` that writes the lines of a format to standard error.

    Errors: `ConfigError` for another format.
    """
    require_choice("handler_for", "log_format", log_format, LogFormat)
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if log_format == "json" else TextLines())
    return handler


def configure(log_format: LogFormat = "text", *, level: LogLevel = "info") -> None:
    """Write what rstreams tells to standard error, and only there.

    Args:
        log_format: How the lines look: "text" or "json".
        level: The least level: "debug", "info", "warning" or "error".

    Errors: `ConfigError` for another format or level.
    Context: Any thread. A second call replaces the first one.
    """
    require_choice("configure", "level", level, LogLevel)
    handler = handler_for(log_format)
    give_up_configuration()
    logger = logging.getLogger("rstreams")
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    logger.propagate = False


def give_up_configuration() -> None:
    """Take back what `configure` has done."""
    logger = logging.getLogger("rstreams")
    for handler in list(logger.handlers):
        if isinstance(handler.formatter, TextLines | JsonLines):
            logger.removeHandler(handler)
            logger.propagate = True
            logger.setLevel(logging.NOTSET)


def format_of_environment() -> LogFormat | None:
    """Return the format that `RSTREAMS_LOG` has; None if it is not set.

    Errors: `ConfigError` for another value.
    """
    given = os.environ.get(_VARIABLE) or None
    return None if given is None else require_choice("", _VARIABLE, given, LogFormat)  # type: ignore[return-value]


def from_environment() -> None:
    """Do what `RSTREAMS_LOG` says; a wrong value is one line on standard error, and the program goes on."""
    try:
        log_format = format_of_environment()
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
    else:
        if log_format is not None:
            configure(log_format)


def __dir__() -> list[str]:
    return __all__
