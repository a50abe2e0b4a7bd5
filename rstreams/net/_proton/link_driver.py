"""The driver that carries one protocol link on the engine: what both directions have in common.

A link's pointer into the engine is the key of its driver. A delivery is dead once it is settled, and no delivery is
settled after its link has ended.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Final
from weakref import ref

from cproton_ffi import lib

from rstreams.errors import AnswerTimeout, ConnectionLost, RemoteProtocolError
from rstreams.net._proton.attach import read_attach, write_attach
from rstreams.net._proton.conditions import write_condition
from rstreams.net._proton.host_connection import HostConnection
from rstreams.net._proton.link_end import LinkEnd
from rstreams.net._proton.link_turns import TakesTurns
from rstreams.net._proton.loops import address_of
from rstreams.net._proton.pointers import Pointer
from rstreams.protocol.driver import Driver, IntakeLimits
from rstreams.protocol.frames import Attach, Detach, Frame, Lost
from rstreams.protocol.link import Link
from rstreams.protocol.packing import PACK_ITEMS
from rstreams.protocol.states import State
from rstreams.protocol.unsettled import Share

_ASKS: Final = {State.ATTACH_SENT: "attach", State.DETACH_SENT: "detach"}
"""The states in which the peer owes an answer, and to what."""


class LinkDriver(Driver, TakesTurns):
    """Carries one link: a `rstreams.protocol.driver.Driver` on the engine.

    Attributes:
        address: Its address, by which the loops know it.
        link: The link that it carries; None before `bind` and after `let_go`.
        origin: The end of this side that attached the link, and its attach; None if the peer attached it.
        heard_detach: Whether the peer has ended its half.
        owns_session: Whether the session of the link is for this link alone.
        deliveries_noted: How many deliveries have news that has not been handed over.
        flow_noted: Whether the link's flow has such news.
        unanswered: Whether the link has ended because the peer did not answer in time.

    Context: Only the task that owns the connection. Any task of its run may call `wake`.
    """

    def __init__(self, host: HostConnection, pointer: Pointer) -> None:
        """Drive the engine's link at `pointer`."""
        self.pointer = pointer
        self.link: Link | None = None
        self.origin: tuple[LinkEnd, Attach] | None = None
        self.heard_detach = False
        self.owns_session = False
        self.deliveries_noted = 0
        self.flow_noted = False
        self.sent_at = 0
        self.unanswered = False
        self._host = host
        self._loops = host.loops
        self.address = address_of(pointer)
        self._session = lib.pn_link_session(pointer)
        self._refused = False
        self._let_go = False
        self._heard_open_end = False  # the peer has ended its half, and has not closed it

    # Driver

    def send(self, frame: Frame) -> None:
        """Send one of our frames, by the engine's own calls."""
        if isinstance(frame, Attach):
            self._send_attach(frame)
        else:
            assert isinstance(frame, Detach), "the other frames are of one direction"
            self._send_detach(frame)
        self._await_answer()

    def _await_answer(self) -> None:
        """Have the link end if the peer leaves the frame that has just been sent without an answer."""
        link, limit_s = self.link, self._host.limits.answer_timeout_s
        if link is None or link.state not in _ASKS or limit_s == math.inf:
            return
        state, me = link.state, ref(self)  # the call does not keep a link that has ended

        def look() -> None:
            driver = me()
            if driver is not None and driver.link is not None and driver.link.state is state:
                driver._give_up(driver.link, f"has not answered the {_ASKS[state]} within {limit_s:g} s")

        self._host.call_after(limit_s, look)

    def _give_up(self, link: Link, why: str) -> None:
        """End a link whose peer does not answer; if it answers later, that is passed over."""
        self.unanswered = True
        if link.state is State.ATTACH_SENT:
            self._send_detach(Detach(closed=False))  # if it is attached late, a subscription that is kept stays (2.6.5)
        link.lose(Lost(AnswerTimeout(f"{link.place or 'the peer'}: the peer {why} (answer_timeout_s)")))

    def wake(self, *, for_item: bool = False) -> None:
        """Have the link work in the connection's next turn; does nothing when the connection has ended.

        Args:
            for_item: Whether a publisher is sending an item. If the connection is idle, the link then works at once.
        """
        if not self._let_go:
            self._host.turns.wake(self, for_item=for_item)

    def sent_at_s(self) -> float:
        """See `Driver`; only a sender sends transfers."""
        return math.inf

    def now_s(self) -> float:
        """Return the time of the connection's run."""
        return math.inf if self._let_go else self._host.owner.now()

    def slice_is_over(self) -> bool:
        """Tell whether the connection's other links and the tasks of the run are to have their turn."""
        return self._host.turns.slice_is_over()

    def call_after(self, delay_s: float, function: Callable[[], None]) -> None:
        """Call `function` in a turn of the connection after `delay_s` seconds, if the link is still there."""

        def call() -> None:
            if not self._let_go:
                function()

        if not self._let_go:
            self._host.call_after(delay_s, call)

    # its life

    def bind(self, link: Link, intake: IntakeLimits | None = None) -> None:  # noqa: ARG002 - for a receiver
        """Carry `link`.

        Args:
            link: The link, whose attach has not been sent yet.
            intake: The bounds of the deliveries that come to its end; None: there are none.
        """
        self.link = link
        self._refused = link.state is State.DETACH_SENT

    def let_go(self) -> None:
        """Forget the link, which has ended, and the connection; then an end keeps only this driver alive."""
        if not self._let_go:
            self._let_go = True
            self.link = self.origin = None
            self._forget()
            del self._host

    @abstractmethod
    def _forget(self) -> None:
        """Forget the items that have not been sent, or not been handed over."""

    def settle_some(self, most: int) -> bool:  # noqa: ARG002 - for a sender
        """Settle up to `most` unsettled deliveries of an ended link; tell whether it may have more.

        Freeing many of them at once, with the link, takes long and blocks the thread.
        """
        return False

    @property
    def lives(self) -> bool:
        """Whether there is a link that has not ended."""
        return self.link is not None and self.link.state is not State.DETACHED

    @property
    def share(self) -> Share | None:
        """The sending links' part of the memory of their node, which the links of the connection have in common."""
        return self._host.share

    @property
    def peer_is_rstreams(self) -> bool:
        """Whether the peer is rstreams, as far as its `open` tells."""
        return self._host.peer_packs

    @property
    def peer_explains(self) -> bool:
        """Whether the peer answers at `$explain`."""
        return self._host.peer_explains

    def attach_beside(self, end: LinkEnd, frame: Attach) -> None:
        """Attach another link on the same connection soon; if that is not possible any more, it hears `Lost`."""
        if self._let_go:
            end.on_lost(Lost(ConnectionLost("the connection has ended")))
        else:
            self._host.owner.attach(end, frame)

    @property
    def peer_container(self) -> str:
        """The peer's name for itself, from its `open`."""
        return self._host.peer_container

    def remote_attach(self) -> Attach:
        """Return the peer's attach."""
        attach = read_attach(self.pointer, self._host.names.of(self.pointer))
        if PACK_ITEMS in attach.properties and not self._host.peer_packs:
            # The peer does not know packs: some peers send back the properties that they got.
            return replace(attach, properties={})
        return attach

    # turns

    def flow_is_news(self) -> bool:
        """Tell whether the end of the link must hear of the flow that the engine has noted."""
        return True

    def work(self) -> None:
        """Let the link's end work; it wakes itself if there is more."""
        link = self.link
        if link is not None:
            link.work()
            if link.state is State.DETACHED:
                self._host.turns.end(self)

    def hand_over_all(self) -> None:
        """Hand over all noted news, because the end of the link comes next."""
        while self.hand_over(1024):
            pass

    def receive(self, frame: Frame) -> None:
        """Hand a frame of the peer to the link, and end a link whose peer broke the protocol."""
        link = self.link
        if isinstance(frame, Detach):
            self.heard_detach = True
            self._heard_open_end = not frame.closed
        if link is None or link.state is State.DETACHED:
            if isinstance(frame, Detach):
                self._host.turns.end(self)
            return
        self._give(link, frame)

    def _give(self, link: Link, frame: Frame) -> None:
        """Give a frame of the peer to the link, which has not ended."""
        try:
            link.receive(frame)
        except RemoteProtocolError as error:
            self._break(link, error)
        self._host.turns.dirty[self] = None  # the owner is in a turn, or one follows what it is fed
        if link.state is State.DETACHED:
            self._host.turns.end(self)

    def _break(self, link: Link, error: RemoteProtocolError) -> None:
        """End a link whose peer broke the protocol."""
        is_named = self.origin is not None and self.origin[1].expiry == "never"  # closing it ends the subscription
        self._send_detach(Detach(not is_named, error.condition, error.description))
        link.lose(Lost(error))

    # sending

    @abstractmethod
    def tell_state(self) -> None:
        """Tell the peer the state of the link, with the next output."""

    def _send_attach(self, frame: Attach) -> None:
        write_attach(self.pointer, frame)
        lib.pn_link_open(self.pointer)

    def _send_detach(self, frame: Detach) -> None:
        pointer = self.pointer
        if lib.pn_link_state(pointer) & lib.PN_LOCAL_UNINIT:
            lib.pn_link_open(pointer)  # 2.6.3: the peer ends a link that has not been answered; an attach comes first
        if frame.condition is not None:
            condition = lib.pn_link_condition(pointer)
            size = self._host.peer_frame_bytes
            write_condition(condition, frame.condition, frame.description, frame.info, size)
        # 2.6.5, 2.7.7: the answer to a detach has `closed` if that one had it.
        if not self._heard_open_end and (frame.closed or self.heard_detach):
            lib.pn_link_close(pointer)
        else:
            lib.pn_link_detach(pointer)
        self._host.flush()  # in one turn it would write the attach of a later link with this name before
