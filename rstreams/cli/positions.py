"""Places in a log, as `--from` takes them: first, last, next, an offset, `@` and a time, or `@-` and a span."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from rstreams.cli.envelope import read_time
from rstreams.cli.exit_codes import mistake

if TYPE_CHECKING:
    from rstreams.net.dialects import Offset

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SPAN: Final = re.compile(r"-(\d+(?:\.\d+)?)([smhdw])")


def read_position(text: str) -> Offset:
    """Return the place in a log that a text names.

    Errors: `CommandEnded` if it names none.
    """
    if text in {"first", "last", "next"}:
        return text  # type: ignore[return-value] # one of the three, as the line above says
    if text.isascii() and text.isdigit():
        return int(text)
    if text.startswith("@"):
        span = _SPAN.fullmatch(text[1:])
        try:
            if span is not None:
                return datetime.now(UTC) - timedelta(**{_UNITS[span[2]]: float(span[1])})
            return read_time(text[1:])
        except (ValueError, OverflowError):
            pass
    msg = f"--from {text!r}: give first, last, next, an offset such as 42, @-1h, or @2026-11-28T10:00"
    raise mistake(msg)
