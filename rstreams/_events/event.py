"""One event: what has happened, with a name that stays, and fields, as a record of Python's `logging`.

`record.event` is the name, and `record.fields` are the fields. The text of the record is the sentence of the event with
these fields. What comes from outside is made harmless here, so that every handler and formatter gets it harmless:

- a text is cut at `MOST_CHARACTERS`,
- characters that are not printable are written as escapes, as in a string of Python: a line stays one line,
- what is not a text, a number or a truth value becomes a text.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping
from typing import Final

from rstreams._events.seldom import is_first

MOST_CHARACTERS: Final = 1000
"""The most characters of one field; of a longer one the beginning is kept."""

_FIELD: Final = re.compile(r"%\((\w+)\)")

_COUNTED: Final = "%(more)d more of this kind%(about)s, the last: "


class LogEvent:
    """A kind of event.

    Args:
        name: Its name, which stays the same from version to version.
        logger: The name of its logger.
        level: Its level.
        sentence: What it says, with places for its fields: `%(queue)s`.
        *further: The fields that are not in the sentence.

    Attributes:
        name: As given.
        logger: The logger.
        level: As given.
        sentence: As given.
        fields: The names of its fields; a count has `more` besides.
    """

    __slots__ = ("fields", "level", "logger", "name", "sentence")

    def __init__(self, name: str, logger: str, level: int, sentence: str, *further: str) -> None:
        self.name = name
        self.logger = logging.getLogger(logger)
        self.level = level
        self.sentence = sentence
        self.fields = (*dict.fromkeys(_FIELD.findall(sentence)), *further)

    def __repr__(self) -> str:
        return f"<LogEvent {self.name}>"

    def tell(self, about: str = "", /, *, raised: BaseException | None = None, **fields: object) -> None:
        """Log that it has happened, or count it if the same about the same was logged within the last second.

        Args:
            about: Whom or what it is about, without what a peer can choose, such as a port.
            raised: An exception whose traceback is logged.
            **fields: The fields; none has a password, a token, or the body of a message.

        Context: Any thread.
        """
        if self.logger.isEnabledFor(self.level):
            fields = {name: value[:_CUT] if isinstance(value, str) else value for name, value in fields.items()}
            if is_first(self, about[:_CUT], fields, raised):
                self.write(about, fields, raised)

    def write(
        self, about: str, fields: Mapping[str, object], raised: BaseException | None = None, more: int = 0
    ) -> None:
        """Log a line; if it stands for `more` lines, it tells how many, and has no traceback."""
        told = {name: _harmless(value) for name, value in fields.items()}
        shown, text = told, self.sentence
        if more:
            told["more"] = more
            shown, text = {**told, "about": f" about {_harmless(about)}" if about else ""}, _COUNTED + text
            if raised is not None:
                shown["raised"] = _harmless(f"{type(raised).__name__}: {raised}")
                text += " (%(raised)s)"
        self.logger.log(
            self.level,
            text,
            {"event": self.name, **shown},  # never empty: `logging` would then not take it for fields
            exc_info=None if more else raised,
            stacklevel=3,
            extra={"event": self.name, "fields": told},
        )


_CUT: Final = MOST_CHARACTERS + 1


def _harmless(value: object) -> str | int | float | bool | None:
    if value is None or isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    text = str(value)
    if len(text) > MOST_CHARACTERS:
        text = f"{text[:MOST_CHARACTERS]}..."
    return printable(text)


def printable(text: str) -> str:
    """Return a text with escapes for the characters that are not printable, such as line breaks."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
