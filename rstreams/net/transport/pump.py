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
from collections.abc import Callable
from typing import Final

import trio

from rstreams import _machine
from rstreams.errors import (
    ConnectionLost,
    IdleTimeout,
)
from rstreams.net._proton import LinkDriver, Unfinished
from rstreams.net._proton.trace import engine_class
from rstreams.net.options.limits import ConnectionLimits
from rstreams.net.transport.connection_life import LOST_AT_ONCE, ConnectionLife, silence_of
from rstreams.net.transport.feeding import CLOSE, CLOSE_BYTES, FEED_BYTES, Feeding
from rstreams.net.transport.run_share import LEAST_ROOM_BYTES, share_of_run
from rstreams.net.transport.wire import wire_over
from rstreams.protocol.frames import Attach
from rstreams.protocol.unsettled import Share
from rstreams.runtime.scope import open_nursery

RUN: Final = 256
"""The most deliveries handed to one link in a turn, as many as the smallest default window. With a larger window, the
credit for one part travels while the next part is worked on."""

_SILENCE: Final = 1.9
"""The shortest silence of the network that ends the connection, as a multiple of the idle time-out."""

_SILENCE_STEP: Final = 0.1
"""How much later the deadline is set than necessary, as a multiple of the idle time-out: to set it costs."""

CLOSE_TIMEOUT_S: Final = 3.0
"""How long a close waits for the peer's answer, in seconds."""

GOODBYE_TIMEOUT_S: Final = 1.0
"""How long the stream itself may take to end after the close, in seconds."""

QUIET_S: Final = 0.0002
"""A connection is busy for so many seconds after a turn. The pump then gathers the items that come."""

MOST_AHEAD: Final = 32
"""The most items of a burst that are sent ahead. The pump gathers the later ones."""

FEW_AHEAD: Final = 2
"""The most items that are sent ahead of each burst that follows a long one."""

BURSTS_WITH_FEW: Final = 7
"""How many bursts after a long one have only few items sent ahead. The next burst shows whether they are still long."""


class Pump(ConnectionLife):
    """One AMQP connection over one byte stream.

    Attributes:
        received_bytes: The bytes that have come, behind SASL at a server.
        sent_bytes: The bytes that were given to the network.
        now: Returns the time of the run, in seconds; also outside of a task.

    Context: `run` is the owner task; every other method is called from tasks of the same trio run.
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
        super().__init__(peer, limits.idle_timeout_s, on_attach)
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
        self._bell = trio.Event()
        self._sleeps = False  # the pump waits for the bell
        self._turning = False  # inside a turn, which needs no bell
        self._waits_to_send = False  # until the network takes the last output
        self.now = trio.lowlevel.current_clock().current_time
        self.received_bytes = self.sent_bytes = 0
        self._bursts = Bursts()
        self._failed_ahead: Exception | None = None  # raised in a turn ahead of the pump, which raises it again
        self._clock = trio.CancelScope()  # its deadline is when the engine's clock is due
        self._owner = trio.CancelScope()
        self._goodbye: tuple[str | None, str] | None = None  # condition and text of the close, for the next turn

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

    def cut(self) -> None:
        """End the connection at once: the peer sees it break."""
        self._owner.cancel()

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
        ends = _machine.now() + slice_s
        self._turning = True
        try:
            while self._turn(slice_s):
                if self._wire.unsent or _machine.now() >= ends:
                    self._share_of_run.note(self, busy=True)
                    return True
        finally:
            self._turning = False
        if self in self._share_of_run.busy:
            self._share_of_run.note(self, busy=False)
        return bool(self._wire.unsent)

    def _turn(self, slice_s: float) -> bool:
        """Take one turn; tell whether there is something to do for another one."""
        engine = self.engine
        if self._attaching:
            self._attach_new()
        if self._goodbye is not None:
            engine.dispatch(RUN, math.inf)  # every link has its turn
            engine.close(*self._goodbye)
            self._goodbye = None
        now = self.now()
        self._bursts.turned_at = now
        output, due, more = engine.turn(RUN, slice_s, now)
        # Setting the deadline takes time. A later one is not set: the clock rings too early once, and is set then.
        if due < self._clock.deadline:  # noqa: PLR1730
            self._clock.deadline = due
        if output:
            self.sent_bytes += sum(map(len, output))
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
        if self._turning or not self._sleeps or self._over or not self._bursts.take(self.now()):
            return False
        self._turning = True
        self.engine.turns.at_s = self._bursts.sent_at
        return True

    def end_ahead(self) -> None:
        """See `Owner`; an error is the connection's, and not the publisher's: the pump raises it."""
        more = True
        try:
            output, more = self.engine.take_ahead(self._bursts.sent_at)
            if output:
                self.sent_bytes += sum(map(len, output))
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
                due = self.now() + _SILENCE * self._idle_timeout_s
                if silence.deadline < due or silence.deadline == math.inf:
                    silence.deadline = due + _SILENCE_STEP * self._idle_timeout_s
                try:
                    in_rooms, data = await self._wire.receive(self.engine.rooms)
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    in_rooms, data = 0, b""
                self.received_bytes += in_rooms + len(data)
                if in_rooms or not data or (len(data) <= CLOSE_BYTES and CLOSE in bytes(data)):
                    data = await self._feeding.special(in_rooms, data)
                fed = self._feed(data)
                if data is not None and not fed == len(data) < LEAST_ROOM_BYTES:
                    await self._go_on(data, fed)
            await trio.sleep_forever()  # it hung up; the rest is to be sent before the silence is too long
        self._fail(self._end if data is None else silence_of(self.peer, self._idle_timeout_s))
        self._owner.cancel()

    async def _go_on(self, data: bytes | bytearray | memoryview, fed: int) -> None:
        """Give the engine the rest of what came, slice by slice; let others go on behind much input."""
        if fed == len(data):
            if self._share_of_run.is_short:
                await self._share_of_run.next_slice()
            return
        left = memoryview(bytes(data[fed:]))  # a copy: other tasks read into the same room
        with self._share_of_run.keeping(self, len(left)):
            while left and not self._cut_off:
                await self._share_of_run.next_slice()
                left = left[self._feed(left) :]

    def _feed(self, data: bytes | bytearray | memoryview | None) -> int:
        """Give the engine bytes that came, for a slice, and take turns; return how many bytes it took."""
        self._turning = True  # turns follow in any case
        try:
            if data is None or len(data) > FEED_BYTES:
                at = self._feeding.feed(data)
            else:
                at = self.engine.feed_some(data, self._share_of_run.slow_frames) if data else 0
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


class Bursts:
    """The bursts of items that are emitted on one connection: how many are sent ahead of a turn, each by itself.

    An item that is sent by itself arrives earlier, but takes more of the processor. A short burst, such as a timer
    makes, is sent in this way as a whole. A publisher that emits as many items as it may has long bursts; only their
    first items would arrive earlier.

    Attributes:
        turned_at: When the last turn of the pump began.
        sent_at: When the last item was sent ahead.
        left: How many more items of this burst may be sent ahead.

    Context: Only the tasks of the connection's run.
    """

    __slots__ = ("_most", "_with_few", "left", "sent_at", "turned_at")

    def __init__(self) -> None:
        """Have been quiet for ever."""
        self.turned_at = -math.inf
        self.left = 0
        self.sent_at = -math.inf
        self._most = MOST_AHEAD
        self._with_few = 0

    def take(self, now: float) -> bool:
        """Return whether an item that is emitted at the time `now` is sent ahead, and count it if so."""
        if now - max(self.turned_at, self.sent_at) >= QUIET_S:
            self._most = FEW_AHEAD if self._with_few else MOST_AHEAD
            self._with_few = max(0, self._with_few - 1)
            self.left = self._most
        elif self.turned_at >= self.sent_at:
            return False  # a turn has ended the burst
        elif not self.left:
            if self._most == MOST_AHEAD:
                self._with_few = BURSTS_WITH_FEW
            return False
        self.left -= 1
        self.sent_at = now
        return True
