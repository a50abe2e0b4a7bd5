"""A plugin of pytest: it writes each event that a test causes as a line of JSON, also those below the level.

pytest -p tests.event_recorder ...      writes to the file that RSTREAMS_EVENTS names
"""

from __future__ import annotations

import logging
import os
from copy import copy
from typing import Any

from rstreams._events.event import LogEvent
from rstreams.logs import JsonLines

_tell = LogEvent.tell
_recorder = logging.Logger("recorder", logging.DEBUG)  # noqa: LOG001 - the tests would see one that has a name
_handler = logging.FileHandler(os.environ["RSTREAMS_EVENTS"], encoding="ascii")
_handler.setFormatter(JsonLines())
_recorder.addHandler(_handler)


def _recorded(self: LogEvent, about: str = "", /, *, raised: BaseException | None = None, **fields: Any) -> None:  # noqa: ANN401 - as `tell`
    other = copy(self)
    other.logger = _recorder
    other.write(about, fields, raised)
    _tell(self, about, raised=raised, **fields)


LogEvent.tell = _recorded  # type: ignore[method-assign] # that is what it is for
