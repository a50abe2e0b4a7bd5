"""The pump: the one task that owns a connection.

Theory of operation. The engine, its links and their signals move in turns, one after another in one trio run. Therefore
nothing in a connection needs a lock. A turn never waits. It has three steps:

    dispatch    the engine's events become frames for the links, which signal, settle and grant; a slice at a time
    tick        heartbeats and time-outs
    output      the engine's bytes for the peer go out in one piece, as far as the network takes them

Three tasks do the work:

- The pump takes turns while there is something to do, a slice at a time, and sends the bytes that the network did not
  take at once. Then it sleeps until a link is woken (request, cancel, a hold released), bytes come, or the clock is
  due.
- A second task receives and feeds the engine. If the pump sleeps, which it mostly does, the second task takes the turns
  itself, because to wake a task costs more than a turn. It goes on receiving while the pump waits to send. Thus two
  peers with full pipes cannot block each other. The credit granted bounds the bytes that it takes in.
- A third task wakes the pump when the clock is due.

Any task of the run may wake a link. Apart from that, only turns touch the engine, and only the first two tasks touch
the network. There is one exception: a publisher may send an item while the connection is idle. Then the item is sent
inside of that signal, by itself (`begin_ahead`), or with the part of a turn that sends (`on_item`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import trio

from rstreams import _machine
from rstreams._core.turn import Turn
from rstreams.errors import (
    Condition,
    ConnectionLost,
    IdleTimeout,
    PeerClosed,
    RemoteProtocolError,
    RStreamsError,
    SessionEnded,
)
from rstreams.net._proton import LinkDriver, LinkEnd, Unfinished
from rstreams.net._proton.trace import engine_class
from rstreams.net.options.limits import ConnectionLimits
from rstreams.net.transport import losses
from rstreams.net.transport.bursts import Bursts
from rstreams.net.transport.carrier import ConnectionStatus
from rstreams.net.transport.feeding import Feeding
from rstreams.net.transport.run_share import LEAST_ROOM_BYTES, share_of_run
from rstreams.net.transport.wire import wire_over
from rstreams.protocol.frames import Attach, Lost
from rstreams.protocol.states import State
from rstreams.protocol.unsettled import Share
from rstreams.runtime.scope import open_nursery

RUN: Final = 256
"""The most deliveries handed to one link in a turn, as many as the smallest default window. With a larger window, the
credit for one part travels while the next part is worked on."""

LOST_AT_ONCE: Final = 64
"""The most links that hear at once that their connection has ended; further links hear it a slice at a time."""

_SILENCE: Final = 1.9
"""The shortest silence of the network that ends the connection, as a multiple of the idle time-out."""

_SILENCE_STEP: Final = 0.1
"""How much later the deadline is set than necessary, as a multiple of the idle time-out: to set it costs."""

CLOSE_TIMEOUT_S: Final = 3.0
"""How long a close waits for the peer's answer, in seconds."""

GOODBYE_TIMEOUT_S: Final = 1.0
"""How long the stream itself may take to end after the close, in seconds."""


class Pump:
    """One AMQP connection over one byte stream.

    Context: `run` is the owner task; every other method is called from tasks of the same trio run.

    Attributes:
        peer: The host and port of the peer, for messages; never a password.
        peer_properties: The properties of the peer's `open`, such as its product and version.
        opened: Set when the peer has opened the connection, or when it has ended.
        ended: Set when it has ended: all its links have ended, and the stream is closed.
        error: Why it ended; None while it lives, and if it was closed from this side.
        engine: The connection in the engine.
        returns: Whether another connection is opened when this one is lost, so that its links wait.
        waiting: The ends that wait for another connection, or for another attempt on this one, with their attaches.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        *,
        peer: str,
        container_id: str,
        hostname: str | None = None,
        limits: ConnectionLimits,
        unfinished: Unfinished | None = None,
        share: Share | None = None,
        on_attach: Callable[[LinkDriver, Attach], None],
    ) -> None:
        """Prepare a connection over `stream`, which the pump owns from now on.

        Args:
            stream: The network, connected; for a server after SASL.
            peer: The host and port of the peer, for messages.
            container_id: This side's name for the peer.
            hostname: The host asked for (client only).
            limits: The limits of the connection.
            unfinished: Counts messages that have not come whole; None: they are not counted.
            share: The sending links' part of the memory of their node; None: there is no such bound.
            on_attach: Called for each link the peer attaches: binds a link to the driver or refuses it.
        """
        self.peer = peer
        self.peer_properties: Mapping[str, Any] = {}
        self.opened = trio.Event()
        self.error: RStreamsError | None = None
        self.returns = False
        self.keeps_links = False
        self._on_attach = on_attach
        self._share = share
        self._unfinished = unfinished
        self._share_of_run = share_of_run()
        self.engine = engine_class()(
            self,
            container_id=container_id,
            hostname=hostname,
            limits=limits,
            unfinished=unfinished,
            share=share,
            output=self._share_of_run.output,
        )
        self._feeding = Feeding(self.engine, self._share_of_run)
        self._stream = stream
        self._wire = wire_over(stream, self.engine.limit_parts)
        self._idle_timeout_s = limits.idle_timeout_s
        self._bell = trio.Event()
        self._sleeps = False  # the pump waits for the bell
        self._turning = False  # inside a turn, which needs no bell
        self._waits_to_send = False  # until the network takes the last output
        self._turn_time = Turn(_machine)
        self._now = trio.lowlevel.current_clock().current_time
        self._bursts = Bursts()
        self._failed_ahead: Exception | None = None  # raised in a turn ahead of the pump, which raises it again
        self._clock = trio.CancelScope()  # its deadline is when the engine's clock is due
        self._owner = trio.CancelScope()
        self._open = False
        self._closing = False  # this side sends close, or has sent it
        self._goodbye: tuple[str | None, str] | None = None  # condition and text of the close, for the next turn
        self._over = False  # nothing more will come
        self._cut_off = False  # bytes that come are not read any more
        self.ended = trio.Event()
        self._attaching: list[tuple[LinkEnd, Attach]] = []
        self.waiting: list[tuple[LinkEnd, Attach]] = []

    async def run(self) -> None:
        """Own the connection until it ends; all its links have ended then, and the stream is closed.

        Errors: None; the error of the connection is in `error`, and reaches the links as `Lost`.
        Cancels: Ends the connection at once: the peer sees it break.
        """
        try:
            with self._owner:
                async with open_nursery() as nursery:
                    nursery.start_soon(self._receive)
                    nursery.start_soon(self._keep_time)
                    await self._turn_until_over()
                    await self._share_of_run.next_slice()
                    nursery.cancel_scope.cancel()
                if not isinstance(self.error, IdleTimeout):
                    with trio.move_on_after(GOODBYE_TIMEOUT_S):
                        await self._wire.aclose()  # TLS has a closing message of its own
        finally:
            end = self._end
            self._over = True  # before links hear of it, because a link attached now comes too late
            self._fail(end)
            self._share_of_run.note(self, busy=False)
            with trio.CancelScope(shield=True):
                await self._free()
            if self._share is not None:
                self._share.end()
            if self._unfinished is not None:
                self._unfinished.clear()
            self.ended.set()
            with trio.CancelScope(shield=True):  # a cancellation must not hide the failure
                await trio.aclose_forcefully(self._stream)

    async def _free(self) -> None:
        """Tell the links that have not heard of the end, and give the engine's memory back, without a long wait."""
        error = self.error or self._end
        await self._share_of_run.next_slice()
        while self.engine.links.lose(error, most=LOST_AT_ONCE):
            await self._share_of_run.next_slice()
        if self.engine.is_heavy:
            await trio.to_thread.run_sync(self.engine.let_go())
        else:
            self.engine.free()

    async def close(self, condition: str | None = None, description: str = "") -> None:
        """Close the connection in order: sent and settled items go out first, then the peer's answer is awaited.

        Args:
            condition: An error condition for the peer; None closes without error.
            description: Text for people, with the condition.

        Cancels: The connection is cut.
        """
        if not self._over and not self._closing:
            self._closing = True
            self._goodbye = (condition, description)
            self.on_wake()
        try:
            with trio.move_on_after(CLOSE_TIMEOUT_S):
                await self.ended.wait()
        finally:
            self._owner.cancel()

    @property
    def status(self) -> ConnectionStatus:
        """The state of the connection."""
        return ConnectionStatus("closed" if self._over or self._closing else "connected", self.peer, self.error)

    def cut(self) -> None:
        """End the connection at once: the peer sees it break."""
        self._owner.cancel()

    def attach(self, end: LinkEnd, frame: Attach) -> None:
        """Attach a new link for `end` in the pump's next turn; if the connection has ended, it hears `Lost` at once."""
        if self._over or self._closing:
            self._tell_lost(self._lost(self.error or self._end), [(end, frame)])
        else:
            self._attaching.append((end, frame))
            self.on_wake()

    def attach_later(self, end: LinkEnd, frame: Attach, error: RStreamsError) -> None:  # noqa: ARG002 - a carrier's
        """Tell `end` the error at once: only a `KeptConnection` attaches again."""
        end.on_lost(Lost(error))

    # the tasks

    async def _turn_until_over(self) -> None:
        while True:
            if self._failed_ahead is not None:
                self._break(self._failed_ahead)
            elif self._wire.unsent:
                await self._send_unsent()
            elif self._take_turns():
                await self._share_of_run.next_slice()
            elif self._over:
                return
            else:
                self._bell = trio.Event()
                self._sleeps = True
                await self._bell.wait()

    def _take_turns(self) -> bool:
        """Take turns while there is something to do; tell whether there is more, because the slice was over."""
        slice_s = self._share_of_run.slice_s
        turn = self._turn_time.begin(seconds=slice_s)
        self._turning = True
        try:
            while self._turn(slice_s):
                if self._wire.unsent or turn.is_over():
                    self._share_of_run.note(self, busy=True)
                    return True
        finally:
            self._turning = False
        self._share_of_run.note(self, busy=False)
        return self._wire.unsent

    def _turn(self, slice_s: float) -> bool:
        """Take one turn; tell whether there is something to do for another one."""
        engine = self.engine
        if self._attaching:
            self._attach_new()
        if self._goodbye is not None:
            engine.dispatch(RUN, math.inf)  # every link has its turn
            engine.close(*self._goodbye)
            self._goodbye = None
        now = self._now()
        self._bursts.note_turn(now)
        output, due, more = engine.turn(RUN, slice_s, now)
        # Setting the deadline takes time. A later one is not set: the clock rings too early once, and is set then.
        if due < self._clock.deadline:  # noqa: PLR1730
            self._clock.deadline = due
        if output:
            try:
                self._wire.send_now(*output)
            except trio.BrokenResourceError as error:
                self._break(error)
        return more or bool(self._attaching)

    def on_item(self) -> None:
        """Send inside of a publisher's signal, which is quicker than to wake the pump, if the connection is idle."""
        if not self.begin_ahead():
            self.on_wake()
            return
        try:
            self.engine.work_ahead(RUN, self._share_of_run.slice_s)
        except Exception as error:
            self._failed_ahead = error
        self.end_ahead()

    def begin_ahead(self) -> bool:
        """See `Owner`: the pump sleeps, and the burst has not had too many items (`Bursts`)."""
        if self._turning or not self._sleeps or self._over or not self._bursts.take(self._now()):
            return False
        self._turning = True
        return True

    def end_ahead(self) -> None:
        """See `Owner`; an error is the connection's, and not the publisher's: the pump raises it."""
        more = True
        try:
            output, more = self.engine.take_ahead()
            if output:
                self._wire.send_now(*output)
        except Exception as error:
            self._failed_ahead = self._failed_ahead or error
        self._turning = False
        if more or self._failed_ahead is not None or self._wire.unsent or self._attaching:
            self.on_wake()

    def _attach_new(self) -> None:
        attaching, self._attaching = self._attaching, []
        for end, frame in attaching:
            if end.wants_link:  # it may have been cancelled since
                self.engine.links.attach(end, frame)

    async def _send_unsent(self) -> None:
        self._waits_to_send = True
        self.engine.pause_output()
        try:
            await self._wire.flush()
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self._break(error)
        finally:
            self._waits_to_send = False
            self.engine.resume_output()

    def _break(self, error: Exception) -> None:
        self._failed_ahead = None
        if not isinstance(error, trio.BrokenResourceError | trio.ClosedResourceError):
            raise error
        self._over = True
        self._fail(ConnectionLost(f"the connection to {self.peer} broke: {error.__cause__ or error}"))

    async def _receive(self) -> None:
        data: bytes | bytearray | memoryview | None = b""
        # The engine's clock also notices silence, and tells the peer. But it stands still while the pump waits to send.
        with trio.CancelScope() as silence:
            while data is not None and not self._cut_off:
                due = self._now() + _SILENCE * self._idle_timeout_s
                if silence.deadline < due or silence.deadline == math.inf:
                    silence.deadline = due + _SILENCE_STEP * self._idle_timeout_s
                data = await self._feeding.receive(self._wire)
                fed, came = self._feed(data), 0 if data is None else len(data)
                if data is not None and fed < came:
                    await self._feed_rest(memoryview(bytes(data[fed:])))  # a copy: other tasks read into the same room
                elif self._share_of_run.is_short and came >= LEAST_ROOM_BYTES:
                    await self._share_of_run.next_slice()
            await trio.sleep_forever()  # it hung up; the rest is to be sent before the silence is too long
        self._fail(self._end if data is None else losses.silence(self.peer, self._idle_timeout_s))
        self._owner.cancel()

    async def _feed_rest(self, left: memoryview) -> None:
        """Give the engine the rest of what came, slice by slice."""
        with self._share_of_run.keeping(self, len(left)):
            while left and not self._cut_off:
                await self._share_of_run.next_slice()
                left = left[self._feed(left) :]

    def _feed(self, data: bytes | bytearray | memoryview | None) -> int:
        """Give the engine bytes that came, for a slice, and take turns; return how many bytes it took."""
        self._turning = True  # turns follow in any case
        try:
            at = self._feeding.feed(data)
        finally:
            self._turning = False
        self._over = self._over or data is None
        if self._waits_to_send and data is not None:
            self._take_in()
        elif not self._sleeps or self._take_turns() or self._over:
            self.on_wake()
        return at

    def _take_in(self) -> None:
        """Hand over received items while the network takes nothing: credit must also bound a peer that does not read.

        Nothing is sent during that, because the links find no room.
        """
        self._turning = True
        try:
            self.engine.dispatch(RUN, self._share_of_run.slice_s)
        finally:
            self._turning = False

    async def _keep_time(self) -> None:
        """Ring when the engine's clock is due; this is cheaper than a deadline on each sleep."""
        while True:
            with self._clock:
                await trio.sleep_forever()
            self._clock = trio.CancelScope()
            self.on_wake()

    def on_wake(self) -> None:
        """Have the pump take turns, unless it does; any task of the run may call this."""
        if not self._turning:
            self._sleeps = False
            self._bell.set()

    # events of the engine

    def on_open(self) -> None:
        """The peer has opened the connection."""
        self._open = True
        self.peer_properties = self.engine.peer_properties
        self.opened.set()

    def on_attach(self, driver: LinkDriver, frame: Attach) -> None:
        """The peer attaches a link: bind one to its driver, or refuse it."""
        self._on_attach(driver, frame)

    def on_session_end(self, drivers: Sequence[LinkDriver], error: SessionEnded) -> None:
        """The peer ended a session; if it did that to refuse one link, the other links in it are attached again."""
        error.place = self.peer
        links = [(driver.link, driver.origin) for driver in drivers if driver.link is not None]
        for_another = any(link.state is State.ATTACH_SENT for link, _ in links) and not self._closing
        for link, origin in links:
            returns = for_another and origin is not None and link.state is State.ATTACHED
            link.lose(Lost(error, returns))
            if returns and origin is not None and origin[0].wants_link:
                self.attach(*origin)

    def on_close(self, error: PeerClosed | None) -> None:
        """The peer has closed the connection: answer, and end every link."""
        self._over = True
        if error is not None:
            error.place = self.peer
        if not self._closing:
            self._fail(error or ConnectionLost(f"{self.peer} closed the connection"))
            self.engine.close()

    def on_failure(self, condition: str, description: str) -> None:
        """The engine gave up on the connection: tell the links, with an error that says what it means."""
        self._over = True
        silence = losses.silence(self.peer, self._idle_timeout_s)
        if condition == Condition.UNAUTHORIZED_ACCESS:
            self._fail(losses.refusal(self.peer, description, self.engine.sasl_outcome))
        else:
            self._fail(losses.failure(self.peer, condition, description, was_open=self._open, silence=silence))

    def on_misuse(self, condition: str, description: str) -> None:
        """The peer repeats something that was refused: close the connection without waiting for an answer."""
        self._cut(RemoteProtocolError(condition, f"{self.peer} was cut off: {description}"), condition, description)

    def on_broken_frame(self, condition: str, description: str) -> None:
        """The peer broke the protocol, or the network changed its bytes: a new connection may do better."""
        self._cut(ConnectionLost(f"{self.peer} was cut off: {description} ({condition})"), condition, description)

    def _cut(self, error: RStreamsError, condition: str, description: str) -> None:
        if not self._over:
            self._over = self._cut_off = True
            self._fail(error)
            self.engine.close(condition, description)

    @property
    def _end(self) -> RStreamsError:
        """The error of a connection that ended without an error: closed from this side, or the peer hung up."""
        return losses.end(self.peer, was_open=self._open, from_here=self._closing or not self._over)

    def _fail(self, error: RStreamsError) -> None:
        """End the connection: its links hear of it, and `run` ends when the last frames have been sent."""
        if not self._closing:
            self.error = self.error or error
        lost = self._lost(self.error or error)
        origins = [driver.origin for driver in self.engine.links.drivers if driver.lives and driver.origin is not None]
        self.engine.links.lose(lost.error, returns=lost.returns, most=None if lost.returns else LOST_AT_ONCE)
        self._keep_waiting(lost, origins)
        attaching, self._attaching = self._attaching, []
        self._tell_lost(lost, attaching)
        self.opened.set()
        self.on_wake()

    def _tell_lost(self, lost: Lost, ends: Sequence[tuple[LinkEnd, Attach]]) -> None:
        """Tell ends that have no link yet that the connection is lost."""
        for end, _ in ends:
            end.on_lost(lost)
        self._keep_waiting(lost, ends)

    def _keep_waiting(self, lost: Lost, ends: Sequence[tuple[LinkEnd, Attach]]) -> None:
        if lost.returns:
            self.waiting += [(end, frame) for end, frame in ends if end.wants_link]

    def _lost(self, error: RStreamsError) -> Lost:
        return Lost(error, returns=self.returns and not self._closing)
