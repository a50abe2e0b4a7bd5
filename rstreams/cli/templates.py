"""Templates: texts in which `{n}`, `{uuid}`, `{now}` and `{random:SIZE}` stand for a value of each message.

    {n}              its number, from 1
    {uuid}           a new UUID
    {now}            the time, such as 2026-11-28T10:00:00.000Z
    {random:1024}    1024 random characters

Other braces stay as they are, so that JSON can be given. A single word in braces that is none of these is a mistake.
"""

from __future__ import annotations

import base64
import random
import re
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from rstreams.cli.exit_codes import mistake

_PLACE: Final = re.compile(r"\{([a-z_]+)(?::([^{}\"]*))?\}")
_MOST_RANDOM: Final = 64 * 1024 * 1024
_KNOWN: Final = "{n}, {uuid}, {now} or {random:SIZE}"

Piece = Callable[[int], str]


class Template:
    """A text with values of each message.

    Attributes:
        is_plain: Whether it is the same for each message.
    """

    def __init__(self, text: str, option: str) -> None:
        """Read a template.

        Args:
            text: The text.
            option: Where it was given, for errors.

        Errors: `CommandEnded` for a value that there is not.
        """
        self._pieces: list[str | Piece] = []
        at = 0
        for found in _PLACE.finditer(text):
            self._pieces += [text[at : found.start()], _piece(found, option)]
            at = found.end()
        self._pieces.append(text[at:])
        self.is_plain = at == 0
        self._plain = text

    def of(self, number: int) -> str:
        """Return the text for a message, by its number."""
        if self.is_plain:
            return self._plain
        return "".join([piece if isinstance(piece, str) else piece(number) for piece in self._pieces])


def _piece(found: re.Match[str], option: str) -> Piece:
    name, size = found.groups()
    if size is None and name in _VALUES:
        return _VALUES[name]
    if name == "random":
        if size is not None and size.isascii() and size.isdigit() and 0 < int(size[:10]) <= _MOST_RANDOM:
            count = int(size)
            return lambda _: _random(count)
        msg = f"{option}: {found[0]}: give a number of characters from 1 to {_MOST_RANDOM}, such as {{random:1024}}"
    else:
        msg = f"{option}: {found[0]} is no template: give {_KNOWN}, or --no-templates to send it as it is"
    raise mistake(msg)


def _random(count: int) -> str:
    return base64.urlsafe_b64encode(random.randbytes(count * 3 // 4 + 1)).decode()[:count]  # noqa: S311 - no secret


def _now(_: int) -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


_VALUES: Final[dict[str, Piece]] = {"n": str, "uuid": lambda _: str(uuid.uuid4()), "now": _now}
