"""A connection as its links see it: the numbers and objects that they share, and the calls that they make."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from cproton_ffi import lib

from rstreams.errors import Condition
from rstreams.net._proton.conditions import read_text
from rstreams.net._proton.delayed_calls import DelayedCalls
from rstreams.net._proton.link_end import LinkEnd
from rstreams.net._proton.link_names import LinkNames
from rstreams.net._proton.link_turns import LinkTurns, TakesTurns
from rstreams.net._proton.loops import new_loops
from rstreams.net._proton.outgoing_frames import BUFFER_BYTES, OutgoingFrames
from rstreams.net._proton.pointers import Pointer
from rstreams.net._proton.session_windows import ShutSessions
from rstreams.net._proton.unfinished import Unfinished
from rstreams.net.options.limits import ConnectionLimits
from rstreams.protocol.frames import Attach
from rstreams.protocol.unsettled import Share


class LinksOwner(Protocol):
    """The owner of a connection, as its links see it."""

    @property
    def now(self) -> Callable[[], float]:
        """The function that returns the time of its run, in seconds."""
        ...

    def on_wake(self) -> None:
        """A link has something to do."""
        ...

    def on_item(self) -> None:
        """Likewise, because a publisher is sending an item."""
        ...

    def on_misuse(self, condition: str, description: str) -> None:
        """The peer broke the protocol, or a limit: the connection is to be closed with the condition."""
        ...

    def attach(self, end: LinkEnd, frame: Attach) -> object:
        """Attach a new link for `end` soon; if that is not possible any more, it hears `Lost` at once."""
        ...

    def begin_ahead(self) -> bool:
        """Tell whether a link may send inside of a publisher's signal, which is quicker than to wake the owner.

        That is so if the connection is idle; then nothing else works on it until `end_ahead`.
        """
        ...

    def end_ahead(self) -> None:
        """Send what the engine has for the peer."""
        ...


class HostConnection:
    """The connection that carries links.

    Attributes:
        connection: The connection in the engine.
        transport: Its bytes in the engine.
        owner: Owns it.
        loops: The loops over the engine.
        limits: The limits of the connection.
        names: The names of its links.
        outgoing: The frames that go to the peer.
        turns: The links that have something to do.
        calls: The calls that wait for the clock.
        shut: The sessions whose window the peer has closed.
        unfinished: Counts messages that have not come whole; None: they are not counted.
        share: The sending links' part of the memory of their node; None: there is no such bound.
        peer_packs: Whether the peer knows packs.
        peer_explains: Whether the peer answers at `$explain`.
        outputs: The number of outputs so far.
        output_waits: Whether the network does not take the last output.
        session_bytes: The most bytes that wait in one session.
        held_parts_bytes: The bytes of parts, at most a frame of each link, that were in no output, because the window
            of their session is closed. Those of other sessions do not wait for them.
        late_bytes: The bytes of deliveries that came behind this side's detach and are not settled.

    Context: Only the task that owns the connection. Any task of its run may call `call_after` and fill the queues.
    """

    def __init__(
        self,
        connection: Pointer,
        transport: Pointer,
        owner: LinksOwner,
        limits: ConnectionLimits,
        *,
        output: bytearray | None,
        unfinished: Unfinished | None,
        share: Share | None,
    ) -> None:
        """Carry no links yet; see `Engine` for the arguments."""
        self.connection = connection
        self.transport = transport
        self.owner = owner
        self.loops = new_loops(transport)
        self.limits = limits
        self.names = LinkNames()
        self.outgoing = OutgoingFrames(self.loops, self.names, output)
        self.turns = LinkTurns(owner.on_wake, owner.on_item)
        self.calls = DelayedCalls()
        self.shut = ShutSessions()
        self.unfinished = unfinished
        if unfinished is not None:
            unfinished.cut_off = self._cut_off
        self.share = share
        self.peer_packs = self.peer_explains = False
        self.outputs = 0
        self.output_waits = False
        self.session_bytes = BUFFER_BYTES
        self.held_parts_bytes = 0
        self.late_bytes = 0

    def flush(self) -> None:
        """Have the engine write its frames now: in one turn it would write flow before dispositions."""
        lib.pn_transport_pending(self.transport)

    def note_held_parts(self) -> bool:
        """Note which parts wait in the engine, after all output has been taken; tell whether they are others now."""
        before, self.held_parts_bytes = self.held_parts_bytes, int(self.loops.part_bytes())
        return self.held_parts_bytes != before

    def call_after(self, delay_s: float, function: Callable[[], None]) -> None:
        """Call `function` in a turn of the connection after `delay_s` seconds, unless the connection has ended."""
        self.calls.add(delay_s, function)
        self.owner.on_wake()

    def forget(self, driver: TakesTurns) -> None:
        """Take a link that is gone out of every queue."""
        self.turns.forget(driver)
        self.outgoing.forget(driver.pointer)
        self.names.forget(driver.pointer)

    def forget_session(self, session: Pointer) -> None:
        """Forget a session that has ended, and whose links are gone."""
        self.turns.forget_session(session)
        self.outgoing.forget_session(session)
        self.shut.discard(session)

    def _cut_off(self, why: str) -> None:
        """Have the connection closed in a turn of its own; any task of the run may call this."""
        self.call_after(0.0, partial(self.owner.on_misuse, Condition.RESOURCE_LIMIT_EXCEEDED.value, why))

    @property
    def peer_frame_bytes(self) -> int:
        """The largest frame the peer takes; 0 if it has set no limit."""
        return int(lib.pn_transport_get_remote_max_frame(self.transport))

    @property
    def peer_container(self) -> str:
        """The peer's name for itself, from its `open`."""
        return read_text(lib.pn_connection_remote_container(self.connection))
