"""The faults of a `FaultyNetwork` and their triggers, without the network itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, Self, TypeAlias, get_args
from urllib.parse import urlsplit

import trio

from rstreams._checks.choices import require_choice
from rstreams._checks.numbers import finite, require_count, require_number, require_seconds
from rstreams._checks.refusals import refuse_value
from rstreams.errors import ConfigError
from rstreams.testing._either_loop import wait_for
from rstreams.testing.seen_frames import Performative, SeenFrame

__all__ = ["FaultTrigger", "Faults"]

OneWay: TypeAlias = Literal["to_peer", "to_client"]
Direction: TypeAlias = Literal["to_peer", "to_client", "both"]
Side: TypeAlias = Literal["client", "peer"]
Cut: TypeAlias = Literal["reset", "hang_up"]
Place: TypeAlias = Literal["before", "inside", "after"]

HOST: Final = "127.0.0.1"

WAYS: Final[tuple[OneWay, ...]] = get_args(OneWay)

_HOSTS: Final = (HOST, "localhost")
_PORTS: Final = {"amqp": 5672, "amqps": 5671}


@dataclass(slots=True)
class Conditions:
    """How bytes travel in one direction."""

    delay_s: float = 0.0
    jitter_s: float = 0.0
    bytes_per_s: float | None = None
    slice_bytes: int | None = None
    gap_s: float = 0.0
    stalled: bool = False
    blackhole: bool = False
    corrupt_probability: float = 0.0
    corrupt_at: int | None = None
    flip: int = 0xFF


class Faults(ABC):
    """The faults: of all connections of a `FaultyNetwork`, of one connection, or waiting for their trigger.

    Every method returns its object, so that several faults can be written in one line. `direction` is that of the
    bytes: `to_peer`, `to_client` or `both`.

    Context: Not blocking; tasks of the network's trio run, and before it has begun.
    """

    # how bytes travel, until that is changed

    def delay(self, delay_s: float, *, jitter_s: float = 0.0, direction: Direction = "both") -> Self:
        """Have bytes arrive `delay_s` seconds later, plus or minus up to `jitter_s`, in order.

        Args:
            delay_s: Seconds; 0 ends the delay.
            jitter_s: Seconds, at most `delay_s`; drawn for each run of bytes read, from the network's seed.
            direction: The direction of the bytes.

        Errors: `ConfigError` for a value that is not such a time.
        """
        require_seconds("delay", "delay_s", delay_s, zero=True)
        require_number("delay", "jitter_s", jitter_s, 0, delay_s)
        return self._set("delay", direction, {"delay_s": delay_s, "jitter_s": jitter_s})

    def bandwidth(self, bytes_per_s: float | None, *, direction: Direction = "both") -> Self:
        """Let at most `bytes_per_s` bytes through in a second, for each connection; None lifts the limit.

        Errors: `ConfigError` unless it is more than 0.
        """
        if bytes_per_s is not None and (finite(bytes_per_s) is None or bytes_per_s <= 0):
            refuse_value("bandwidth", "bytes_per_s", bytes_per_s, "more than 0 bytes a second, or None for no limit")
        return self._set("bandwidth", direction, {"bytes_per_s": bytes_per_s})

    def slicing(self, slice_bytes: int | None, *, gap_s: float = 0.0, direction: Direction = "both") -> Self:
        """Have bytes arrive at most `slice_bytes` at a time; None ends it.

        Args:
            slice_bytes: Bytes written at once.
            gap_s: Seconds between two slices. Without a gap the other tasks run in between; but a receiver that does
                not read then finds several slices at once.
            direction: The direction of the bytes.

        Errors: `ConfigError` for a value that is not such a number.
        """
        if slice_bytes is not None:
            require_count("slicing", "slice_bytes", slice_bytes, 1, unit="")
        require_seconds("slicing", "gap_s", gap_s, zero=True)
        return self._set("slicing", direction, {"slice_bytes": slice_bytes, "gap_s": gap_s})

    def stall(self, *, direction: Direction = "both") -> Self:
        """Let no bytes through and lose none: the sender's pipe fills up. `heal` lets all bytes go on."""
        return self._set("stall", direction, {"stalled": True})

    def blackhole(self, *, direction: Direction = "both") -> Self:
        """Swallow all bytes and their end, while the connection stays; `heal` does not bring them back.

        No TCP passes on bytes behind bytes that it has lost. After `heal` the two ends may agree on all later bytes,
        but not on the swallowed ones: a message whose outcome was swallowed stays unsettled. Therefore end such a
        connection instead.
        """
        return self._set("blackhole", direction, {"blackhole": True})

    def corrupt(
        self,
        *,
        at_byte: int | None = None,
        probability: float | None = None,
        flip: int = 0xFF,
        direction: Direction = "both",
    ) -> Self:
        """Change bytes on their way: the one at an offset, or each with a probability.

        Args:
            at_byte: How many bytes go by unchanged before the one that is changed: from now on, from the trigger's
                place, or from the start of a connection that begins later.
            probability: Of each byte to be changed, from 0 to 1, drawn from the network's seed.
            flip: The bits that are changed in such a byte, 1 to 255.
            direction: The direction of the bytes.

        Errors: `ConfigError` for a value that is not such a number, and unless one of the two is given.
        """
        require_count("corrupt", "flip", flip, 1, 255, unit="")
        if (at_byte is None) == (probability is None):
            msg = f"corrupt(at_byte={at_byte!r}, probability={probability!r}): give one of the two, and not both"
            raise ConfigError(msg)
        if at_byte is not None:
            require_count("corrupt", "at_byte", at_byte, 0, unit="")
            return self._set("corrupt", direction, {"corrupt_at": at_byte, "flip": flip})
        assert probability is not None, "one of the two is given"
        chance = float(require_number("corrupt", "probability", probability, 0, 1))
        return self._set("corrupt", direction, {"corrupt_probability": chance, "flip": flip})

    def heal(self) -> Self:
        """Have bytes travel as in a network without faults; stalled or delayed bytes go on."""
        blank = Conditions()
        changes: dict[str, object] = {name: getattr(blank, name) for name in Conditions.__slots__}
        return self._set("heal", "both", changes)

    # the end of a connection

    def reset(self) -> Self:
        """Break connections on both sides with a TCP reset; bytes under way are lost."""
        return self._cut("reset", "reset", "reset")

    def hang_up(self) -> Self:
        """Close connections on both sides in the order of TCP; bytes under way are lost."""
        return self._cut("hang_up", "hang_up", "hang_up")

    def half_open(self, *, closed: Side, reset: bool = False) -> Self:
        """Close connections on one side, and leave the other side open, which never hears of that.

        Args:
            closed: The side whose connection is closed. The bytes of the other side are swallowed.
            reset: Whether the closed side sees a TCP reset, and not an orderly end.

        Errors: `ConfigError` for another side.
        """
        require_choice("half_open", "closed", closed, Side)
        cut: Cut = "reset" if reset else "hang_up"
        return self._cut("half_open", cut if closed == "client" else None, cut if closed == "peer" else None)

    # carrying out

    @abstractmethod
    def _set(self, fault: str, direction: Direction, changes: dict[str, object]) -> Self:
        """Change the conditions in a direction."""

    @abstractmethod
    def _cut(self, fault: str, client: Cut | None, peer: Cut | None) -> Self:
        """End the connection to the client, to the peer, or both."""


class FaultTrigger(Faults):
    """A place in a connection for faults: made by `FaultyNetwork.when` and `FaultyNetwork.after`.

    The faults named on it are done there, in the order in which they were named, to the connection that has come to
    that place. Other connections are not changed. Without a fault it only tells when the place is reached.

    Attributes:
        fired: How many times the place was reached.
    """

    def __init__(
        self,
        *,
        close: Callable[[float | None], object],
        forget: Callable[[FaultTrigger], None],
        direction: Direction,
        connection: int | None,
        times: int | None,
        after_bytes: int | None = None,
        performative: Performative | None = None,
        predicate: Callable[[SeenFrame], bool] | None = None,
        nth: int = 1,
        at: Place = "before",
    ) -> None:
        """Check the place; `close` closes the network, `forget` is called when the place cannot be reached any more."""
        require_choice("", "direction", direction, Direction)
        if connection is not None:
            require_count("", "connection", connection, 1, unit="")
        if times is not None:
            require_count("", "times", times, 1, unit="")
        if after_bytes is not None:
            require_count("after", "bytes", after_bytes, 0, unit="")
        if performative is not None:
            require_choice("when", "performative", performative, Performative)
        if predicate is not None and not callable(predicate):
            refuse_value("when", "predicate", predicate, "a function of a SeenFrame")
        require_count("when", "nth", nth, 1, unit="")
        require_choice("when", "at", at, Place)
        self.fired = 0
        self._close = close
        self._forget = forget
        self._direction = direction
        self._connection = connection
        self._times = times
        self._after_bytes = after_bytes
        self._performative = performative
        self._predicate = predicate
        self._nth = nth
        self._at = at
        self._event = trio.Event()
        self._actions: list[Callable[[Faults], object]] = []

    def __repr__(self) -> str:
        """Return the place, and how often it was reached."""
        if self._after_bytes is not None:
            place = f"after {self._after_bytes} bytes"
        else:
            place = f"{self._at} {self._performative or 'frame'} number {self._nth}"
        return f"<fault {place}, direction {self._direction}, fired {self.fired} times>"

    def close(self, for_s: float | None = None) -> Self:
        """Have the network refuse new connections, for `for_s` seconds or until it is reopened.

        Errors: `ConfigError` for a value that is not such a time.
        """
        if for_s is not None:
            require_seconds("close", "for_s", for_s)
        self._actions.append(lambda _: self._close(for_s))
        return self

    async def done(self) -> None:
        """Wait until the place has been reached, and its faults have been done."""
        await wait_for(self._event)

    def cancel(self) -> None:
        """Do no more faults there."""
        self._times = self.fired
        self._forget(self)

    @property
    def waits_for_frames(self) -> bool:
        """Whether frames must be recognized."""
        return self._after_bytes is None

    @property
    def looks_at(self) -> bool:
        """Whether it needs a frame's contents."""
        return self._predicate is not None

    @property
    def after_bytes(self) -> int | None:
        """How many bytes go before it; None if it waits for a frame."""
        return self._after_bytes

    def concerns(self, connection: int, way: OneWay) -> bool:
        """Tell whether its place is in this direction of this connection."""
        return self._direction in (way, "both") and self._connection in (None, connection)

    def matches(self, frame: SeenFrame) -> bool:
        """Tell whether it waits for such a frame."""
        if self._performative not in (None, frame.performative):
            return False
        return self._predicate is None or bool(self._predicate(frame))

    def offset(self, frame: SeenFrame, count: int) -> int | None:
        """Return how many bytes of the frame go before it, the `count`th that it matches; None if it is not yet."""
        if count != self._nth:
            return None
        return {"before": 0, "inside": frame.size_bytes // 2, "after": frame.size_bytes}[self._at]

    def fire(self, connection: Faults) -> None:
        """Do the faults to a connection, unless they have been done often enough."""
        if self._times is not None and self.fired >= self._times:
            return
        self.fired += 1
        if self.fired == self._times:
            self._forget(self)
        for action in self._actions:
            action(connection)
        self._event.set()

    def _set(self, fault: str, direction: Direction, changes: dict[str, object]) -> Self:
        require_choice("", "direction", direction, Direction)
        self._actions.append(lambda connection: connection._set(fault, direction, changes))  # noqa: SLF001 - its own kind
        return self

    def _cut(self, fault: str, client: Cut | None, peer: Cut | None) -> Self:
        self._actions.append(lambda connection: connection._cut(fault, client, peer))  # noqa: SLF001 - its own kind
        return self


def parse_peer(peer: int | str) -> tuple[str, str, str, int]:
    """Return scheme, credentials, host and port of a peer."""
    place = f"{HOST}:{peer}" if isinstance(peer, int) and not isinstance(peer, bool) else peer
    if isinstance(place, str):
        try:
            parts = urlsplit(place if "://" in place else f"amqp://{place}")
            port = parts.port or (None if parts.port == 0 else _PORTS.get(parts.scheme))
        except ValueError:
            port = None
        else:
            plain = parts.path in ("", "/") and not parts.query and not parts.fragment
            if port is not None and parts.scheme in _PORTS and parts.hostname in _HOSTS and plain:
                credentials, at, _ = parts.netloc.rpartition("@")
                return parts.scheme, credentials + at, parts.hostname or HOST, port
    shown = repr(peer) if isinstance(peer, int) else "***" if "@" in str(peer) else repr(peer)
    msg = f"peer={shown}: it must be a port, host:port or an amqp:// or amqps:// url, of {' or '.join(_HOSTS)}"
    raise ConfigError(msg)
