"""The deliveries that a link sends: made of items, sent whole, packed or in parts, settled when their outcome comes.

Theory of operation. A run of items becomes one frame with one delivery for each item, or with fewer if both ends have
agreed on packs. A message whose body is streamed is one delivery by itself. It is sent in parts as the body comes, and
nothing is sent between its parts. A delivery that is sent settled counts as accepted at once. The others are in
`unsettled_deliveries` until their outcome comes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence

from rstreams._core.claims import NO_HOLD
from rstreams.abc import Hold
from rstreams.errors import Condition, ProtocolError
from rstreams.protocol.ages import Ages
from rstreams.protocol.delivery import Outcome
from rstreams.protocol.driver import Driver
from rstreams.protocol.frames import Disposition, Transfer
from rstreams.protocol.options import SendingOptions
from rstreams.protocol.outgoing_body import OutgoingBody
from rstreams.protocol.outgoing_items import OutgoingItems
from rstreams.protocol.packer import Packer, SentPack
from rstreams.protocol.packing import MAX_PACK_BYTES, told_outcomes
from rstreams.protocol.unsettled import UnsettledBound
from rstreams.protocol.unsettled_deliveries import UnsettledDeliveries


class OutgoingDeliveries:
    """The deliveries that a `LinkSubscriber` sends; see the text of this module.

    Context: As `LinkSubscriber`.
    Spec: AMQP 1.0 sections 2.6.12 and 2.6.14.

    Attributes:
        accepted: Items that the receiver has accepted; if they are sent settled: items sent.
        refused: Items that the receiver has not accepted, or would not accept.
        not_taken: The same by their outcomes.
        late: Outcomes that came for items that were not waited for any more.
        resent: Items to send again after a loss.
        begun: The number of deliveries that have been begun: the tag of the next one.
        unsettled: The deliveries whose outcome has not come.
        body: The body of the delivery that is being sent in parts.
        most_bytes: The largest message that the receiver takes; 0 for any size.
    """

    __slots__ = (
        "_body_bytes",
        "_items",
        "_options",
        "_packer",
        "_place",
        "_refused_at",
        "_send",
        "_settled",
        "_stop",
        "_wake",
        "_was_refused",
        "accepted",
        "begun",
        "body",
        "late",
        "most_bytes",
        "not_taken",
        "refused",
        "resent",
        "unsettled",
    )

    def __init__(
        self,
        options: SendingOptions,
        items: OutgoingItems,
        bound: UnsettledBound,
        *,
        send: Callable[[Transfer], None],
        stop: Callable[[BaseException], None],
        place: Callable[[], str],
        wake: Callable[[], None],
    ) -> None:
        """Start without deliveries.

        Args:
            options: Those of the link.
            items: The items that wait to be sent.
            bound: Counts unsettled items.
            send: Sends a frame.
            stop: Ends the stream with an error; unsent items are given back.
            place: Returns where the link goes to, for messages.
            wake: Makes the link work soon.
        """
        self.accepted = 0
        self.refused = 0
        self.not_taken: Counter[str] = Counter()
        self.late = 0
        self.resent = 0
        self.begun = 0
        self.unsettled = UnsettledDeliveries(bound, resends=options.resends and not options.settled)
        self.body: OutgoingBody | None = None
        self.most_bytes = 0
        self._body_bytes = 0  # the bytes sent so far of the message that is sent in parts
        self._options = options
        self._settled = options.settled
        self._refused_at = -1  # how many items were accepted when the last one was not
        self._was_refused = False  # the receiver has not accepted an item
        self._items = items
        self._packer = Packer(options.linger_s, keeps=options.resends and not options.settled)
        self._send = send
        self._stop = stop
        self._place = place
        self._wake = wake

    def agree(self, pack_items: int, max_message_bytes: int) -> None:
        """Use the receiver's limits: the items in a pack, and the bytes of a message; 0 for any number."""
        self.most_bytes = max_message_bytes
        self._packer.most_items = pack_items
        self._packer.most_bytes = min(max_message_bytes or MAX_PACK_BYTES, MAX_PACK_BYTES)

    @property
    def at_rest(self) -> bool:
        """Whether all deliveries that were begun are sent and settled."""
        return not self.unsettled and self.body is None

    @property
    def can_resend(self) -> bool:
        """Whether no delivery in progress is lost, or could be sent only once, or would be stored before its turn.

        A receiver that knows items by their numbers takes nothing behind an item that it has refused, over the same
        link. Over another one it does, and would then take the refused item for a repetition. So who has sent it must
        decide what comes again.
        """
        if self._options.numbered and self._was_refused:
            return False
        resends = self._options.resends and not self._settled
        return self.body is None and not self.unsettled.streamed and (resends or self.at_rest)

    # how they are sent

    def send_run(self, count: int, driver: Driver, credit: int, *, is_last: bool, hurries: bool) -> int:
        """Send the first `count` held items, packed if packs are agreed on; return how many were sent.

        Args:
            count: At least one; none of these items is streamed.
            driver: The driver of the link.
            credit: The most deliveries that may be sent.
            is_last: Whether no more items will come.
            hurries: Whether the last pack does not wait for more items.
        """
        items, packer = self._items, self._packer
        packs: list[list[bytes]] = []
        if packer.most_items > 1:
            packs = packer.divide(items.payloads, count, credit)
            count = sum(map(len, packs))
            more_may_come = count == len(items.payloads) and not is_last and not hurries
            if more_may_come and packer.waits(packs[-1], driver.call_after, self._wake):
                count -= len(packs.pop())
            if count == 0:
                return 0
        are_bodies, first = items.are_bodies, self.begun
        payloads, claims, numbers = items.take(count)
        kept: list[Hold | SentPack] = []
        if packs:
            payloads, kept = packer.pack(packs, claims, numbers, are_bodies=are_bodies)
            at = 0
            for tag, pack in enumerate(packs, first):
                if len(pack) == 1:
                    items.numbers.send(tag, numbers[at : at + 1], self._oldest_tag)
                at += len(pack)
        else:
            items.numbers.send(first, numbers, self._oldest_tag)
        tags = range(first, first + len(payloads))
        self.begun += len(payloads)
        if self._settled:
            self.accepted += count
        elif packs:
            self.unsettled.put_packs(tags, payloads, kept, count)
        else:
            self.unsettled.put_runs(tags, payloads, claims)
        self._send(Transfer(tags, payloads, self._settled, are_bodies=are_bodies and not packs))
        return count

    def send_ahead(self, payload: bytes, hold: Hold, driver: Driver) -> bool:
        """Send one encoded item at once, by itself, if its driver can do that now; tell whether it was sent."""
        size, tag, settled, unsettled = len(payload), self.begun, self._settled, self.unsettled
        if self.body is not None or 0 < self.most_bytes < size or not (settled or unsettled.bound.fits_one(size)):
            return False
        if not driver.send_ahead(tag, payload, settled=settled):
            return False
        self.begun = tag + 1
        numbers = self._items.numbers
        if numbers.taken - tag == numbers.delta and not numbers.again:
            numbers.taken += 1  # as below, in less time
        else:
            numbers.send(tag, numbers.take(1), self._oldest_tag)
        if settled:
            self.accepted += 1
        else:
            unsettled.put_one(tag, payload, hold)
        return True

    def begin_body(self, driver: Driver) -> None:
        """Begin the first held item, which is streamed."""
        self.unsettled.know_each()
        (head, hold, number), tag = self._items.take_head(), self.begun
        self.begun += 1
        self._items.numbers.send(tag, number, self._oldest_tag)
        if not self._settled:
            self.unsettled.put_streamed(tag, hold, len(head))
        self._body_bytes = len(head)
        self._send(Transfer([tag], [bytes(head)], self._settled, more=True))
        self.body = OutgoingBody(tag, head.chunks, self._wake)
        self.send_body(self.body, driver)

    def send_body(self, body: OutgoingBody, driver: Driver) -> bool:
        """Send the present part of the body, as far as there is room; tell whether it was the last part."""
        while driver.room_bytes() > 0:
            part = body.take()
            if part is not None:
                self._body_bytes += len(part)
                if 0 < self.most_bytes < self._body_bytes:
                    what = f"a message that is sent while it comes was given up at {self._body_bytes} bytes"
                    self.refuse(what, self.abort_body(body), self._items.numbers.of(body.tag), b"")
                    return True
                self.unsettled.grow(body.tag, len(part))
                self._send(Transfer([body.tag], [part], self._settled, more=True))
            elif body.error is not None:
                self._body_failed(body, body.error)
                return True
            elif body.through:
                self.body = None
                self.accepted += self._settled
                self._send(Transfer([body.tag], [b""], self._settled))
                return True
            else:
                return False  # the body wakes this end
        return False

    def _body_failed(self, body: OutgoingBody, error: BaseException) -> None:
        """Abort the delivery, and end the stream with the error; the items after it are given back."""
        self.abort_body(body).fail(error)
        self._items.numbers.unsent += 1
        self._stop(error)
        self._wake()

    def abort_body(self, body: OutgoingBody) -> Hold:
        """Take back the delivery that is being sent, and return its hold."""
        self.body = None
        body.cancel()
        self._send(Transfer([body.tag], [b""], self._settled, aborted=True))  # a body does not outlive its link
        (hold,) = self.unsettled.take_each([body.tag])
        assert not isinstance(hold, SentPack), "an item of a pack has no body that is sent in parts"
        return NO_HOLD if hold is None else hold

    def note_age(self, ages: Ages, driver: Driver) -> None:
        """Note when the deliveries that have been begun were sent."""
        ages.note(self.begun, driver.sent_at_s(), self._oldest_tag())

    def sent_at_s(self, ages: Ages, driver: Driver) -> float | None:
        """Return when the oldest unsettled delivery was sent at the latest; None if there is none."""
        if not self.unsettled:
            return None
        noted = ages.sent_at_s(self._oldest_tag())
        return driver.sent_at_s() if noted is None else noted

    # how they are settled

    def settle(self, frame: Disposition) -> None:
        """End the holds of deliveries whose outcome has come."""
        tags, unsettled = frame.deliveries, self.unsettled
        if frame.outcome.kind == "accepted" and type(tags) is range:
            while tags and (first := unsettled.first) is not None and first >= tags[0]:
                if first > tags[0]:
                    self._settle_each(tags[: first - tags[0]], frame.outcome)
                    tags = tags[first - tags[0] :]
                    continue
                count, claims = unsettled.take_first(len(tags))
                self.accepted += count
                tags = tags[count:]
                claims.done()
        if tags:
            self._settle_each(tags, frame.outcome)

    def _settle_each(self, tags: Sequence[Hashable], outcome: Outcome) -> None:
        holds = self.unsettled.take_each(tags)
        body = self.body
        if body is not None and not self._settled and body.tag not in self.unsettled.streamed:
            self.body = None  # the receiver has settled what it has only a part of, and wants no more
            body.cancel()
            self._send(Transfer([body.tag], [b""], aborted=True))
        accepted = outcome.kind == "accepted"
        for tag, hold in zip(tags, holds, strict=True):
            if hold is None:
                self.late += 1
            elif isinstance(hold, SentPack):
                self._pack_settled(hold, outcome)
            elif accepted:
                self.accepted += 1
                if hold is not NO_HOLD:
                    hold.done()
            else:
                assert isinstance(tag, int), "tags count up"
                self._was_refused = True
                self.not_accepted(hold, outcome, self._items.numbers.of(tag))

    def _pack_settled(self, pack: SentPack, outcome: Outcome) -> None:
        if outcome.kind == "accepted":
            self.accepted += len(pack.claims)
            pack.claims.done()
            return
        told_each = told_outcomes(outcome, len(pack.claims))
        for hold, number, told in zip(pack.claims.each(), pack.numbers, told_each, strict=True):
            if told.kind == "accepted":
                self.accepted += 1
                hold.done()
            else:
                self._was_refused = True
                self.not_accepted(hold, told, number)

    @property
    def refuses(self) -> bool:
        """Whether the receiver has not accepted the item whose outcome came last."""
        return self._refused_at == self.accepted

    def not_accepted(self, hold: Hold, outcome: Outcome, number: int) -> None:
        """End the hold of an item that the receiver has not accepted, or will not accept."""
        self.refused += 1
        self._refused_at = self.accepted
        self.not_taken[outcome.kind] += 1
        if self._options.fail_on_refusal:
            self._items.numbers.refused[number] = outcome
        if outcome.kind == "released":
            hold.release()
        else:
            hold.fail(outcome.as_error())
        if self._options.fail_on_refusal:
            self._stop(outcome.as_error(self.accepted))
            self._wake()

    def refuse_first(self) -> None:
        """Refuse the first held item, whose message is larger than the receiver takes (2.7.3)."""
        payload, size, hold, number = self._items.take_first()
        self.refuse(f"a message of {size} bytes was not sent", hold, number, payload)

    def refuse(self, what: str, hold: Hold, number: int, message: bytes) -> None:
        """End the hold of an item whose message is larger than the receiver takes.

        Args:
            what: What has become of the message.
            hold: The hold of the item.
            number: The number of the item.
            message: The message, if it was not begun.
        """
        condition, place = Condition.LINK_MESSAGE_SIZE_EXCEEDED.value, self._place().partition(", ")[2]
        text = f"{what}, because the receiver takes at most max-message-size={self.most_bytes}"
        outcome = Outcome("rejected", condition, f"{place}: {text}" if place else text, refused_here=True)
        refuse = self._options.refuse_too_large
        if refuse is None:
            goes_on = hold is not NO_HOLD or self._options.fail_on_refusal
            self.not_accepted(hold, outcome, number)
        else:
            goes_on = refuse(hold, outcome, message)
        if not goes_on:  # otherwise the refusal would be unnoticed
            self._stop(ProtocolError(condition, outcome.description))

    def _oldest_tag(self) -> int:
        """Return the tag of the oldest unsettled delivery."""
        return self.unsettled.oldest(self.begun)

    # how they are lost

    def take_back(self) -> None:
        """Have unsettled items held again: they are sent over another link, before all others."""
        items = self._items
        taken = self.unsettled.take_back(items.numbers.of)
        self.resent += len(taken[0])
        items.put_back(*taken)
        self._packer.reset()

    def take_holds(self) -> list[Hold]:
        """Forget unsettled deliveries, and the body in progress; return the holds, if there are any."""
        if self.body is not None:
            self.body.cancel()
            self.body = None
        return self.unsettled.take_holds()
