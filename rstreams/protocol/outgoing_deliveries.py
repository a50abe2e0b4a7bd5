"""The deliveries that a link sends: made of items; sent whole, packed or in parts; and kept until their outcome comes.

Theory of operation. A run of items becomes one frame with one delivery for each item, or with fewer if both ends have
agreed on packs. A message whose body is streamed is one delivery by itself. It is sent in parts as the body comes, and
nothing is sent between its parts. Each delivery has a tag. The tag finds its hold when the outcome comes. A delivery
that is sent settled counts as accepted at once.

A lost link may be replaced, and unsettled items are then sent again. Their messages are therefore kept until then: in
the hold of their pack if they are packed, else beside the hold. Messages sent in parts are not kept; they can be sent
only once.

Most deliveries are accepted in the order in which they were sent. Deliveries whose items came in a run, or that have no
hold, are known by runs. They are then accepted in runs, and no work is done for a single one. If a delivery has another
outcome, or is not accepted in the order, all deliveries that are known by runs are known by their tags from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import repeat
from typing import Any

from rstreams._core.claims import NO_HOLD, Claims
from rstreams.abc import Hold
from rstreams.errors import Condition
from rstreams.protocol.delivery import Outcome
from rstreams.protocol.driver import Driver
from rstreams.protocol.frames import Disposition, Transfer
from rstreams.protocol.item_numbers import ItemNumbers
from rstreams.protocol.options import SendingOptions
from rstreams.protocol.outgoing_body import OutgoingBody
from rstreams.protocol.outgoing_holds import SentRuns, claims_on_item
from rstreams.protocol.outgoing_items import OutgoingItems
from rstreams.protocol.packer import Packer, SentPack
from rstreams.protocol.packing import MAX_PACK_BYTES, told_outcomes
from rstreams.protocol.unsettled import UnsettledBound


class OutgoingDeliveries:
    """The deliveries that a `LinkSubscriber` has sent; see the text of this module.

    Context: As `LinkSubscriber`.
    Spec: AMQP 1.0 sections 2.6.12 and 2.6.14.

    Attributes:
        accepted: Items that the receiver has accepted; if they are sent settled: items sent.
        refused: Items that the receiver has not accepted, or would not accept.
        late: Outcomes that came for items that were not waited for any more.
        resent: Items to send again after a loss.
        unsettled: The hold, or the pack, of each delivery whose outcome has not come, unless it is known by its run.
        body: The body of the delivery that is being sent in parts.
        most_bytes: The largest message that the receiver takes; 0 for any size.
        numbers: The numbers of the items.
    """

    __slots__ = (
        "_body_bytes",
        "_fail_on_refusal",
        "_kept",
        "_next_tag",
        "_numbered",
        "_packer",
        "_resends",
        "_runs",
        "_send",
        "_settled",
        "_sizes",
        "_stop",
        "_streamed",
        "_wake",
        "_was_refused",
        "accepted",
        "body",
        "bound",
        "late",
        "most_bytes",
        "numbers",
        "refused",
        "resent",
        "unsettled",
    )

    def __init__(
        self,
        options: SendingOptions,
        bound: UnsettledBound,
        numbers: ItemNumbers,
        *,
        send: Callable[[Transfer], None],
        stop: Callable[[BaseException], None],
        wake: Callable[[], None],
    ) -> None:
        """Start without deliveries.

        Args:
            options: Those of the link.
            bound: Counts unsettled items.
            numbers: Numbers the items.
            send: Sends a frame.
            stop: Ends the stream with an error; unsent items are given back.
            wake: Makes the link work soon.
        """
        self.accepted = 0
        self.refused = 0
        self.late = 0
        self.resent = 0
        self.unsettled: dict[Hashable, Hold | SentPack] = {}
        self.body: OutgoingBody | None = None
        self.bound = bound
        self.numbers = numbers
        self.most_bytes = 0
        self._body_bytes = 0  # the bytes sent so far of the message that is sent in parts
        self._settled = options.settled
        self._resends = options.resends and not options.settled
        self._numbered = options.numbered
        self._was_refused = False  # the receiver has not accepted an item
        self._fail_on_refusal = options.fail_on_refusal
        self._packer = Packer(options.linger_s, keeps=self._resends)
        self._send = send
        self._stop = stop
        self._wake = wake
        self._runs = SentRuns()  # all of these were sent after all of `unsettled`
        self._sizes: dict[Hashable, int] = {}  # of each of `unsettled`
        self._kept: dict[Hashable, bytes] = {}  # unsettled messages that are not packs, to be sent again
        self._streamed: set[Hashable] = set()  # deliveries in parts that are unsettled, and cannot be sent again
        self._next_tag = 0

    def agree(self, pack_items: int, max_message_bytes: int) -> None:
        """Use the receiver's limits: the items in a pack, and the bytes of a message; 0 for any number."""
        self.most_bytes = max_message_bytes
        self._packer.most_items = pack_items
        self._packer.most_bytes = min(max_message_bytes or MAX_PACK_BYTES, MAX_PACK_BYTES)

    @property
    def unsettled_items(self) -> int:
        """The number of items in unsettled deliveries."""
        return self.bound.items

    @property
    def begun(self) -> int:
        """The number of deliveries that have been begun."""
        return self._next_tag

    @property
    def at_rest(self) -> bool:
        """Whether all deliveries that were begun are sent and settled."""
        return not self.unsettled and not self._runs and self.body is None

    @property
    def can_resend(self) -> bool:
        """Whether no delivery in progress is lost, or could be sent only once, or would be stored before its turn.

        A receiver that knows items by their numbers takes nothing behind an item that it has refused, over the same
        link. Over another one it does, and would then take the refused item for a repetition. So who has sent it must
        decide what comes again.
        """
        if self._numbered and self._was_refused:
            return False
        return self.body is None and not self._streamed and (self._resends or self.at_rest)

    # how they are sent

    def send_run(self, items: OutgoingItems[Any], count: int, driver: Driver, credit: int, *, hurries: bool) -> int:
        """Send the first `count` held items, packed if packs are agreed on; return how many were sent.

        Args:
            items: The held items; none of those to send is streamed.
            count: At least one.
            driver: The driver of the link.
            credit: The most deliveries that may be sent.
            hurries: Whether the last pack does not wait for more items.
        """
        packer = self._packer
        packs: list[list[bytes]] = []
        if packer.most_items > 1:
            packs = packer.divide(items.payloads, count, credit)
            count = sum(map(len, packs))
            more_may_come = count == len(items.payloads) and not items.completed and not hurries
            if more_may_come and packer.waits(packs[-1], driver.call_after, self._wake):
                count -= len(packs.pop())
            if count == 0:
                return 0
        are_bodies = items.are_bodies
        payloads, claims, numbers = items.take(count)
        kept: list[Hold | SentPack] = []
        if packs:
            payloads, kept = packer.pack(packs, claims, numbers, are_bodies=are_bodies)
            at = 0
            for tag, pack in enumerate(packs, self._next_tag):
                if len(pack) == 1:
                    self.numbers.send(tag, numbers[at : at + 1], self._oldest_tag)
                at += len(pack)
        else:
            self.numbers.send(self._next_tag, numbers, self._oldest_tag)
        tags = range(self._next_tag, self._next_tag + len(payloads))
        self._next_tag += len(payloads)
        if self._settled:
            self.accepted += count
        else:
            sizes = self._await(payloads, count)
            if packs:
                self._know_each()
                self._keep(tags, payloads, kept, sizes)
            else:
                self._await_runs(tags, payloads, sizes, claims)
        self._send(Transfer(tags, payloads, self._settled, are_bodies=are_bodies and not packs))
        return count

    def send_ahead(self, payload: bytes, hold: Hold, driver: Driver) -> bool:
        """Send one encoded item at once, by itself, if its driver can do that now; tell whether it was sent."""
        size, tag, settled = len(payload), self._next_tag, self._settled
        if self.body is not None or 0 < self.most_bytes < size or not (settled or self.bound.fits_one(size)):
            return False
        if not driver.send_ahead(tag, payload, settled=settled):
            return False
        self._next_tag = tag + 1
        numbers = self.numbers
        if numbers.taken - tag == numbers.delta and not numbers.again:
            numbers.taken += 1  # as below, in less time
        else:
            numbers.send(tag, numbers.take(1), self._oldest_tag)
        if settled:
            self.accepted += 1
        else:
            self._await_runs(range(tag, tag + 1), [payload], self._await([payload], 1), [claims_on_item(hold)])
        return True

    def _await(self, payloads: list[bytes], count: int) -> list[int]:
        """Count deliveries with `count` items that are about to be sent as unsettled; return their sizes."""
        sizes = list(map(len, payloads))
        self.bound.take(count, len(sizes), sum(sizes))
        return sizes

    def _await_runs(self, tags: range, payloads: list[bytes], sizes: list[int], claims: list[Claims]) -> None:
        """Await the outcomes of deliveries of one item each, with the claims on their runs."""
        kept = payloads if self._resends else ()
        if len(claims) == 1:
            self._runs.add((tags, kept, sizes, claims[0]))
            return
        begin = 0
        for run in claims:
            end = begin + len(run)
            self._runs.add((tags[begin:end], kept[begin:end], sizes[begin:end], run))
            begin = end

    def _keep(self, tags: range, payloads: Sequence[bytes], holds: Iterable[Hold | SentPack], sizes: list[int]) -> None:
        """Keep each delivery's hold, and messages that may have to be sent again; a pack keeps its items itself."""
        self.unsettled.update(zip(tags, holds, strict=False))
        self._sizes.update(zip(tags, sizes, strict=True))
        if self._resends:
            sent = zip(tags, payloads, strict=True)
            self._kept.update((tag, payload) for tag, payload in sent if not isinstance(self.unsettled[tag], SentPack))

    def _know_each(self) -> None:
        """Know each unsettled delivery by its tag."""
        for tags, payloads, sizes, claims in self._runs.take_all():
            self._keep(tags, payloads, claims.each(), sizes)

    def begin_body(self, items: OutgoingItems[Any], driver: Driver) -> None:
        """Begin the first held item, which is streamed."""
        self._know_each()
        (head, hold, number), tag = items.take_head(), self._next_tag
        self._next_tag += 1
        self.numbers.send(tag, number, self._oldest_tag)
        if not self._settled:
            self.unsettled[tag] = hold
            self._streamed.add(tag)
            self._sizes[tag] = len(head)
            self.bound.take(1, 1, len(head))
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
                    self._body_failed(body, too_large(self._body_bytes, self.most_bytes).as_error(self.accepted))
                    return True
                self._count_part(body.tag, len(part))
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

    def _count_part(self, tag: Hashable, size: int) -> None:
        """Count a delivery in parts as large as its largest part: the other parts have left."""
        more = size - self._sizes.get(tag, size)
        if more > 0:
            self._sizes[tag] += more
            self.bound.take(0, 0, more)

    def _forget_sizes(self, tags: Iterable[Hashable], items: int) -> None:
        """Count deliveries with `items` items as settled, if their outcomes were awaited."""
        sizes = [size for size in map(self._sizes.pop, tags, repeat(-1)) if size >= 0]
        self.bound.give(items, len(sizes), sum(sizes))

    def _body_failed(self, body: OutgoingBody, error: BaseException) -> None:
        """Abort the delivery, and end the stream with the error; the items after it are given back."""
        self.abort_body(body).fail(error)
        self.numbers.unsent += 1
        self._stop(error)
        self._wake()

    def abort_body(self, body: OutgoingBody) -> Hold:
        """Take back the delivery that is being sent, and return its hold."""
        self.body = None
        body.cancel()
        self._streamed.discard(body.tag)
        self._send(Transfer([body.tag], [b""], self._settled, aborted=True))  # a body does not outlive its link
        if body.tag in self._sizes:
            self._forget_sizes([body.tag], 1)
        hold = self.unsettled.pop(body.tag, NO_HOLD)
        assert not isinstance(hold, SentPack), "an item of a pack has no body that is sent in parts"
        return hold

    # how they are settled

    def settle(self, frame: Disposition) -> None:
        """End the holds of deliveries whose outcome has come."""
        tags = frame.deliveries
        if frame.outcome.kind == "accepted" and type(tags) is range:
            tags = self._accept_first(tags, frame.outcome)
        if tags:
            self._know_each()
            self._settle_each(tags, frame.outcome)

    def _settle_each(self, tags: Sequence[Hashable], outcome: Outcome) -> None:
        if self._resends:
            for tag in tags:
                self._kept.pop(tag, None)
        if self._streamed:
            self._streamed_settled(tags)
        take = self.unsettled.pop
        accepted = outcome.kind == "accepted"
        packs = self._packer.most_items > 1
        holds = list(map(take, tags, repeat(None)))
        self._forget_sizes(tags, count_items(holds) if packs else len(holds) - holds.count(None))
        if accepted and not packs:
            self._accepted(holds)
            return
        for tag, hold in zip(tags, holds, strict=True):
            if hold is None:
                self.late += 1
            elif isinstance(hold, SentPack):
                self._pack_settled(hold, outcome)
            elif not accepted:
                self._refuse(tag, hold, outcome)
            else:
                self.accepted += 1
                hold.done()

    def _accept_first(self, tags: range, accepted: Outcome) -> range:
        """Accept deliveries that are known by runs, from the first one on, and those before; return remaining tags."""
        runs = self._runs
        while tags and runs:
            before = runs.first - tags[0]
            if before < 0:
                break
            if before > 0:
                self._settle_each(tags[:before], accepted)
                tags = tags[before:]
                continue
            count, size, claims = runs.take(len(tags))
            self.accepted += count
            self.bound.give(count, count, size)
            tags = tags[count:]
            claims.done()
        return tags

    def _accepted(self, holds: list[Hold | SentPack | None]) -> None:
        """End the holds of items that were accepted; None stands for an item that is not waited for."""
        missing, free = holds.count(None), holds.count(NO_HOLD)
        self.late += missing
        self.accepted += len(holds) - missing
        if missing + free < len(holds):
            for hold in holds:
                if hold is not None:
                    assert not isinstance(hold, SentPack), "packs are accepted one by one"
                    hold.done()

    def _streamed_settled(self, tags: Iterable[Hashable]) -> None:
        """Forget settled deliveries; a receiver may settle one that it has only a part of, and wants no more then."""
        self._streamed.difference_update(tags)
        body = self.body
        if body is not None and body.tag not in self._streamed and not self._settled:
            self.body = None
            body.cancel()
            self._send(Transfer([body.tag], [b""], aborted=True))

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

    def _refuse(self, tag: Hashable, hold: Hold, outcome: Outcome) -> None:
        assert isinstance(tag, int), "tags count up"
        self._was_refused = True
        self.not_accepted(hold, outcome, self.numbers.of(tag))

    def not_accepted(self, hold: Hold, outcome: Outcome, number: int) -> None:
        """End the hold of an item that the receiver has not accepted, or will not accept."""
        self.refused += 1
        if self._fail_on_refusal:
            self.numbers.refused[number] = outcome
        if outcome.kind == "released":
            hold.release()
        else:
            hold.fail(outcome.as_error())
        if self._fail_on_refusal:
            self._stop(outcome.as_error(self.accepted))
            self._wake()

    # how they are lost

    def _oldest_tag(self) -> int:
        """Return the tag of the oldest unsettled delivery."""
        oldest: Any = next(iter(self.unsettled), None)
        return oldest if oldest is not None else self._runs.first if self._runs else self._next_tag

    def take_back(self) -> tuple[list[bytes], list[Hold], list[int]]:
        """Take unsettled items back, to send them again on another link, in the order in which they were sent."""
        self._know_each()
        payloads: list[bytes] = []
        holds: list[Hold] = []
        numbers: list[int] = []
        tag: Any
        for tag, hold in self.unsettled.items():
            if isinstance(hold, SentPack):
                payloads += hold.items
                holds += hold.claims.each()
                numbers += hold.numbers
            else:
                payloads.append(self._kept[tag])
                holds.append(hold)
                numbers.append(self.numbers.of(tag))
        self.resent += len(payloads)
        self._kept.clear()
        self.unsettled.clear()
        self._sizes.clear()
        self.bound.clear()
        self._packer.reset()
        return payloads, holds, numbers

    def take_holds(self) -> list[Hold]:
        """Forget unsettled deliveries, and the body in progress; return the holds, if there are any."""
        if self.body is not None:
            self.body.cancel()
            self.body = None
        self._know_each()
        unsettled, self.unsettled = self.unsettled, {}
        self._kept.clear()
        self._streamed.clear()
        self._sizes.clear()
        self.bound.clear()
        holds = (kept.claims if isinstance(kept, SentPack) else kept for kept in unsettled.values())
        return [hold for hold in holds if hold is not NO_HOLD]


def too_large(size: int, most_bytes: int, place: str = "") -> Outcome:
    """Return the outcome of a message that the receiver does not take because of its size (2.7.3)."""
    text = f"a message of {size} bytes is larger than the receiver's max-message-size={most_bytes}"
    return Outcome("rejected", Condition.LINK_MESSAGE_SIZE_EXCEEDED.value, f"{place}: {text}" if place else text)


def count_items(holds: Iterable[Hold | SentPack | None]) -> int:
    """Return the number of items of these holds; the hold of a pack stands for several, and None for none."""
    return sum(len(hold.claims) if isinstance(hold, SentPack) else 1 for hold in holds if hold is not None)
