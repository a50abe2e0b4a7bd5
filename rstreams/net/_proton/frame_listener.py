"""What the reading of the peer's frames asks of their connection, and what it knows of the peer's channels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from rstreams.net._proton.link_driver import LinkDriver
from rstreams.net._proton.pointers import Pointer


@dataclass(slots=True)
class Channel:
    """A session of the peer's channel.

    Attributes:
        session: The session in the engine.
        ours: This side's channel, as the peer said it, if this side began the session; else None.
        handles: The handles of the peer's links; for each, whether the peer sends.
        senders: The links that the peer sends on, by their handles.
        receivers: The links that the peer receives on, by their handles, once it has sent a flow of them.
        unused: The first of the handles that the peer has never given a link.
    """

    session: Pointer
    ours: object
    handles: dict[int, bool] = field(default_factory=dict)
    senders: dict[int, Pointer] = field(default_factory=dict)
    receivers: dict[int, Pointer] = field(default_factory=dict)
    unused: int = 0


class FrameListener(Protocol):
    """The connection whose frames are read."""

    def note_events(self) -> None:
        """Handle the events that the engine has made of the frames so far."""
        ...

    def driver_at(self, pointer: Pointer) -> LinkDriver | None:
        """Return the driver of a link of the engine; None if it has none."""
        ...

    def on_window(self, session: Pointer) -> None:
        """Hear that the peer has closed the window of a session, or opened it again."""
        ...

    def refuse_peer(self, condition: str, description: str) -> None:
        """Close the connection because of a frame, after everything before it has been handed over."""
        ...
