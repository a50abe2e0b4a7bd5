"""The node's end of a link that a peer sends on, for addresses that grant each producer its part of their room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rstreams._core.claims_in_order import ClaimsInOrder, gather
from rstreams._core.run import Run
from rstreams._core.sight import FAULTS, ROOM, Asked, Scannable, Want
from rstreams._core.subscription import ENDED
from rstreams._events.table import PRODUCER_TOO_MUCH
from rstreams._stages.drawing import Drawing, drawing_from
from rstreams.abc import Hold, Subscription
from rstreams.culprits import WaitTree
from rstreams.errors import DeliveryFailed
from rstreams.net.links.effectively_once import Stamp, read_stamp
from rstreams.node.address_waits import Waits
from rstreams.node.seen_messages import Seen, behind_a_gap, end_stolen, open_gaps


class Receives(Protocol):
    """The address behind a `Producer`.

    Attributes:
        name: The name that peers attach to.
    """

    name: str

    @property
    def tells_outcomes(self) -> bool:
        """Whether it calls `accept` or `refuse` for each message, now or later.

        Otherwise a message is accepted when `receive` returns, unless `refuse` is called for it before.
        """
        ...

    @property
    def takes_singly(self) -> bool:
        """Whether it wants messages one by one now, because it may refuse or hold each of them by itself."""
        ...

    def join(self, producer: Producer) -> None:
        """Grant a new producer its part of the room."""
        ...

    def receive(
        self, producer: Producer, run: Sequence[bytes], stamps: Sequence[Stamp] = (), repeated: int = 0
    ) -> None:
        """Take messages that were granted.

        Args:
            producer: Their producer.
            run: The messages.
            stamps: Their numbers, if the producer numbers them.
            repeated: How many further ones came with them that have come before; they may not be safe yet.
        """
        ...

    def refuse_in_turn(self, producer: Producer, messages: int, error: DeliveryFailed) -> None:
        """Refuse messages when the outcomes of all earlier ones of their producer are told."""
        ...

    def leave(self, producer: Producer) -> None:
        """Take back what was granted to a producer that has gone."""
        ...

    def explain(self) -> str:
        """Return the state of the address in one line."""
        ...

    @property
    def waits(self) -> Waits:
        """Returns what the address waits for."""
        ...


class Producer(Scannable):
    """The node's end of one producer link: the items that the address requests here become the producer's credit.

    If the address tells outcomes, an item is accepted when it says so (`accept`), otherwise when `on_next` returns.
    Messages come by `on_next`, `on_run` or, if they are drawn, `_take_drawn`. `take` is also called for copies.

    Args:
        address: The address.
        window: The most items it may have outstanding at first.
        seen: Knows the messages that numbered producers have sent; None if this one does not number them. A message
            that comes again is accepted when the one that came first is safe.

    Attributes:
        outstanding: Items requested and not yet received.
        window: The most items it may have outstanding while there is room. Some addresses let it grow.
        ended: Whether the link has ended.
    """

    __slots__ = (
        "__weakref__",
        "_address",
        "_claims",
        "_drawing",
        "_producer_id",
        "_seen",
        "_subscription",
        "ended",
        "outstanding",
        "window",
    )

    def __init__(self, address: Receives, window: int, seen: Seen | None = None) -> None:
        self._address = address
        self._seen = seen
        self._subscription: Subscription = ENDED
        self._claims: ClaimsInOrder | None = None  # on the messages whose outcome has not been told
        self._drawing: Drawing[bytes] | None = None  # if the items can be drawn
        self._producer_id = ""
        self.outstanding = 0
        self.window = window
        self.ended = False

    def on_subscribe(self, subscription: Subscription) -> None:
        """Join the address; a second subscription is cancelled."""
        if self._subscription is not ENDED or self.ended:
            subscription.cancel()  # 2.5: at most one live subscription
            return
        self._subscription = subscription
        if self._address.tells_outcomes:
            self._claims = gather(subscription, loose=False)
        self._drawing = drawing_from(subscription, self._take_drawn)
        self._address.join(self)

    def on_next(self, item: bytes) -> None:
        """Pass a message to the address."""
        if self.ended:
            return
        if not self.outstanding:
            # 1.1: no room was granted for it, therefore it cannot be stored. A link cannot get here.
            PRODUCER_TOO_MUCH.tell(self._address.name, address=self._address.name)
            self._subscription.hold().release()
            self._end()
            self._subscription.cancel()
            return
        if self._claims is not None:
            self._claims.keep()
        if self._seen is None:  # not numbered: the short way past `take`, for a message that comes alone
            self._address.receive(self, (item,))
        else:
            self.take((item,))

    def on_run(self, messages: Run[bytes]) -> None:
        """Pass many messages to the address."""
        if self.ended:
            return
        if self._claims is None and (self._address.takes_singly or (self._seen is not None and self._seen.gaps)):
            for item in messages.items():
                self.on_next(item)
                if self.ended:
                    break  # the items that follow go back
            return
        run: list[bytes] = []
        try:
            messages.put_into(run, self._claims)
        finally:  # if the next one cannot be had, those before it are taken nevertheless
            if run and not self.ended:
                self.take(run)

    def on_error(self, error: BaseException) -> None:  # noqa: ARG002 - the reason changes nothing here
        """Leave the address."""
        self.on_complete()

    def on_complete(self) -> None:
        """Leave the address, when it has the items that are being drawn."""
        if self._drawing is None:
            self._end()
        else:
            self._drawing.end(self._end)

    @property
    def numbered(self) -> bool:
        """Whether its messages are numbered."""
        return self._seen is not None

    @property
    def draws(self) -> bool:
        """Whether it draws its items as soon as they are requested."""
        return self._drawing is not None

    def stall(self) -> str:
        """Return why it asks for no more, for `explain` of the stream that is sent."""
        return self._address.explain()

    def part(self, want: Want, asked: Asked) -> WaitTree:
        """Return the address, with what it waits for. What is wrong for a producer is that it finds no room."""
        return self._address.waits(ROOM if want == FAULTS else want, asked)

    @property
    def source(self) -> Subscription:
        """The subscription of the producer's items."""
        return self._subscription

    def give_way(self, producer: str) -> None:
        """End the link: another one sends as the same producer now."""
        if not self.ended and end_stolen(self._subscription, producer) is not None:
            self.on_complete()

    # the address calls these; outcomes are told in the order in which it got the messages

    def grant(self, n: int) -> None:
        """Request `n` more items from the producer; they count as outstanding before it can answer."""
        self.outstanding += n
        if self._drawing is None:
            self._subscription.request(n)
        else:
            self._drawing.request(n)

    def accept(self, messages: int) -> None:
        """Accept messages."""
        if self._claims is not None:
            self._claims.done(messages)

    def refuse(self, messages: int, error: DeliveryFailed) -> None:
        """Refuse messages. A publisher that cannot be told is cancelled."""
        if self._claims is not None:
            for _ in range(messages):
                self._claims.take().fail(error)
        elif not self._address.tells_outcomes:
            self._subscription.hold().fail(error)  # it is the message in `on_next`
        elif not self.ended:
            self._end()
            self._subscription.cancel()

    def hold(self) -> Hold:
        """Take a hold on the message in `on_next`."""
        return self._subscription.hold()

    # messages

    def _take_drawn(self, run: list[bytes]) -> None:
        """Pass drawn items to the address, in two parts: behind the first one it grants more, and drawing goes on."""
        half = len(run) // 2
        for part in (run[:half], run[half:]) if half else (run,):
            self.take(part)

    def take(self, run: Sequence[bytes]) -> None:
        """Pass messages on, whose claims are kept; those that were stored before are left out."""
        if self._seen is None:
            self._address.receive(self, run)
            return
        again = 0
        while run:
            fresh, stamps, end = self._new_ones(self._seen, run)
            if end:
                self._address.receive(self, fresh, stamps, end - len(fresh))
                again += end - len(fresh)
                run = run[end:]
            else:  # the outcomes are in order, also those of other producers on the same link
                known = open_gaps(self._seen.gaps, run)
                self._address.refuse_in_turn(self, len(run), behind_a_gap(known[0]))
                again += len(run)
                break
        if again and not self.ended:
            self._subscription.request(again)

    def _new_ones(self, seen: Seen, run: Sequence[bytes]) -> tuple[list[bytes], list[Stamp], int]:
        """Return the next messages that have not been stored, their stamps, and the place behind them.

        They end where one comes that is behind a gap, or that comes again behind a new one: that may be refused.
        """
        fresh: list[bytes] = []
        stamps: list[Stamp] = []
        known: dict[str, int] = {}
        gaps = seen.gaps
        for at, item in enumerate(run):
            stamp = read_stamp(item)
            if stamp is not None:
                producer, sequence = stamp
                self.sends_as(producer, seen)
                if gaps and gaps.is_behind(stamp):
                    return fresh, stamps, at
                if seen.has(stamp) or sequence <= known.get(producer, -1):
                    if fresh:
                        return fresh, stamps, at
                    continue
                if gaps:
                    gaps.close(stamp)
                known[producer] = sequence
                stamps.append(stamp)
            fresh.append(item)
        return fresh, stamps, len(run)

    def sends_as(self, producer: str, links: Seen) -> None:
        """Note as which producer it sends; an older link of the same producer gives way."""
        if producer != self._producer_id:
            before, self._producer_id = self._producer_id, producer
            links.sends_as(producer, self, before)

    def _end(self) -> None:
        if not self.ended:
            self.ended = True
            if self._subscription is not ENDED:
                self._address.leave(self)
