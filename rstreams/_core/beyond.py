"""Questions that go over a connection: what does the other side wait for?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple, Protocol, get_args

from rstreams._core.sight import Want
from rstreams.culprits import MOST_TEXT, WaitTree

WITHIN_S: Final = 5.0
"""How long the answer to a question may take, in seconds, unless something else is asked for."""

HOPS: Final = 8
"""Over how many connections a question goes, unless something else is asked for."""

_MOST_S: Final = 60.0
_MOST_TRAIL: Final = 64
_KEPT: Final = 0.8  # the part of the time that is passed on: the rest is for the answer


class Sides(NamedTuple):
    """The names of a link and of its two sides, for people.

    Attributes:
        link: The link.
        own: The container id of this side.
        peer: The peer: its container id, or its host and port.
    """

    link: str
    own: str
    peer: str


class Open(NamedTuple):
    """Where a tree goes on at a peer.

    Attributes:
        end: The end of the link.
        want: What is wanted of the peer.
        trail: The places that the question has come through.
    """

    end: Any
    want: Want
    trail: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """What one process asks another one.

    Attributes:
        address: The name of an address of the other side; "" for a link, or for all that waits.
        container: With `does` and `link` it names a link; see `rstreams.net.links.link_name`.
        does: What the client of the link does.
        link: The name of the link; "": no link is meant.
        want: What is wanted of the other side of the link.
        within_s: How long the answer may take, in seconds.
        hops: Over how many further connections the question may go.
        trail: The places that it has come through.
    """

    address: str = ""
    container: str = ""
    does: Literal["publish", "subscribe"] = "subscribe"
    link: str = ""
    want: Want = "room"
    within_s: float = WITHIN_S
    hops: int = HOPS
    trail: tuple[str, ...] = field(default=())

    def as_dict(self) -> dict[str, Any]:
        """Return it as a map for the wire."""
        told: dict[str, Any] = {"within_ms": max(1, int(self.within_s * 1000)), "hops": self.hops}
        words = {"address": self.address, "container": self.container, "link": self.link}
        told |= {name: text for name, text in words.items() if text}
        if self.link:
            told |= {"does": self.does, "want": self.want}
        if self.trail:
            told["trail"] = list(self.trail)
        return told

    @classmethod
    def from_dict(cls, value: object) -> Question:
        """Return the question of a peer, within bounds; what is missing or wrong is as if it had not been said."""
        told: Mapping[Any, Any] = value if isinstance(value, Mapping) else {}
        wanted: list[Want] = [want for want in get_args(Want) if want == told.get("want")]
        trail = told.get("trail")
        return cls(
            address=_text(told.get("address")),
            container=_text(told.get("container")),
            does="publish" if told.get("does") == "publish" else "subscribe",
            link=_text(told.get("link")),
            want=wanted[0] if wanted else "room",
            within_s=min(_count(told.get("within_ms"), int(WITHIN_S * 1000)) / 1000, _MOST_S),
            hops=min(_count(told.get("hops"), HOPS), HOPS),
            trail=tuple(map(_text, trail[:_MOST_TRAIL])) if isinstance(trail, list) else (),
        )

    def passed_on(self, opened: Open) -> Question:
        """Return it for the next connection: with less time, and one hop less."""
        left_s, trail = self.within_s * _KEPT, opened.trail[-_MOST_TRAIL:]
        return replace(self, want=opened.want, within_s=left_s, hops=self.hops - 1, trail=trail)


class Beyond(Protocol):
    """The owner of the ends of links, which can ask their peers."""

    def sides(self, end: Any) -> Sides:  # noqa: ANN401 - an end that it owns
        """Return the names of an end's link."""
        ...

    async def ask(self, end: Any, question: Question) -> WaitTree:  # noqa: ANN401 - as above
        """Ask the peer of an end what its side of the link waits for. No answer is a part that says so."""
        ...


def _text(value: object) -> str:
    return value[:MOST_TEXT] if isinstance(value, str) else ""


def _count(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else otherwise
