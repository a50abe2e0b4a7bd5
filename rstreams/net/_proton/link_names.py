"""The names of a connection's links: on the wire the one of the attach, and in the engine one of this side's own.

The engine finds the link of an attach by its name. But a name may come again before both sides have ended the link that
had it: a peer asks again for an address that was refused, or opens a subscription again at once. The engine would take
that for a mistake, or for news of the old link. It also cuts names off at a NUL. Therefore each link has another name
in the engine, and the names in the attaches are exchanged on their way.

Spec: AMQP 1.0 sections 2.6.1 (naming a link), 2.7.3 (attach).
"""

from __future__ import annotations

from collections import deque
from typing import Final, TypeAlias

from cproton_ffi import ffi, lib

from rstreams._codec.encode import NULL, encode_string
from rstreams.net._proton.frame_fields import text_in
from rstreams.net._proton.pointers import Pointer

Asked: TypeAlias = tuple[Pointer, bool, bytes]
"""A session, whether this side sends, and the name: the peer's answer has all three."""

_NONE: Final = b""


class LinkNames:
    """The names of the links of one connection.

    Context: Only the task that owns the connection.
    """

    def __init__(self) -> None:
        """Have none."""
        self._fields: dict[bytes, bytes] = {}  # by the engine's name, the name on the wire, encoded
        self._asked: dict[Asked, deque[bytes]] = {}  # the links that the peer has not answered, in their order
        self._unanswered: dict[bytes, Asked] = {}
        self._last = 0

    def ask(self, session: Pointer, name: str, *, sends: bool) -> str:
        """Return the engine's name for a new link of this side."""
        own = self._add(encode_string(name))
        asked = self._unanswered[own] = (session, sends, name.encode())
        self._asked.setdefault(asked, deque()).append(own)
        return own.decode()

    def come(self, session: Pointer, field: bytes, *, sends: bool) -> bytes:
        """Return the engine's name for the link of an attach that has come; `field` is the name in it, encoded.

        The attach answers the first link with this name that this side has attached; otherwise it is of a new link.
        """
        asked = self._asked.get((session, sends, text_in(field) or _NONE))
        if asked is None:
            return self._add(field)
        own = asked[0]
        self._answered(own)
        return own

    def _add(self, field: bytes) -> bytes:
        self._last += 1
        own = b"%d" % self._last
        self._fields[own] = field
        return own

    def _answered(self, own: bytes) -> None:
        asked = self._unanswered.pop(own, None)
        if asked is not None:
            self._asked[asked].remove(own)
            if not self._asked[asked]:
                del self._asked[asked]

    def encoded(self, own: bytes) -> bytes:
        """Return the name on the wire, encoded, of the link with this name in the engine."""
        return self._fields.get(own, NULL)

    def of(self, link: Pointer) -> str:
        """Return the name of a link; "" if it has none. Each name is another text, also if it is not UTF-8."""
        return (text_in(self.encoded(own_name_of(link))) or _NONE).decode("utf-8", "backslashreplace")

    def forget(self, link: Pointer) -> None:
        """Forget a link that has ended."""
        own = own_name_of(link)
        self._answered(own)
        self._fields.pop(own, None)


def own_name_of(link: Pointer) -> bytes:
    """Return the name of a link in the engine."""
    return bytes(ffi.string(lib.pn_link_name(link)))
