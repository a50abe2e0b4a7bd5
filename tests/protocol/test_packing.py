"""Packed deliveries: the format, the credit, what becomes of single items, and the whole link under random demand."""

from __future__ import annotations

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from rstreams.errors import ConfigError, DeliveryFailed, RemoteProtocolError
from rstreams.protocol.credit import CreditLedger, SenderLedger, require_pack
from rstreams.protocol.delivery import ACCEPTED, END, FAILED, RELEASED, FailureStrategy, Outcome
from rstreams.protocol.frames import Attach, Disposition, Flow, Role, Settlement, Transfer
from rstreams.protocol.options import ReceivingOptions, SendingOptions
from rstreams.protocol.packer import Packer
from rstreams.protocol.packing import (
    FRAME_PACK_BYTES,
    MAX_PACK_BYTES,
    OUTCOMES,
    PACK_ITEMS,
    PackItems,
    agreed_items,
    decode_pack,
    encode_bodies,
    encode_pack,
    most_pack_bytes,
    settled_whole,
    told_outcomes,
    unpack,
)
from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.sender import LinkSubscriber
from rstreams.testing import ManualPublisher, ProbeSubscriber
from rstreams.testing.local_driver import LocalDriver
from tests.protocol.played import LOST, PlayedDriver, decode, encode, never

# the format


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=70))
def test_a_pack_holds_what_was_put_in(items: list[bytes]) -> None:
    packed = decode_pack(encode_pack(items))
    assert packed is not None
    assert (list(packed), len(packed), packed[0], packed[1:]) == (items, len(items), items[0], items[1:])


def test_an_ordinary_message_is_no_pack() -> None:
    assert decode_pack(b"\x00\x53\x75\xa0\x01x") is None
    assert decode_pack(b"") is None


@given(st.lists(st.binary(max_size=9), min_size=1, max_size=4), st.data())
def test_a_pack_that_was_cut_or_changed_is_never_read_as_something_else(
    items: list[bytes], data: st.DataObject
) -> None:
    whole = encode_pack(items)
    start = len(encode_pack([]))
    cut = whole[: data.draw(st.integers(start - 4, len(whole) - 1))]
    with pytest.raises(RemoteProtocolError, match="packed delivery"):
        decode_pack(cut)
    with pytest.raises(RemoteProtocolError, match="packed delivery"):
        decode_pack(whole + b"x")


@pytest.mark.parametrize(
    ("ours", "theirs", "agreed"),
    [(64, 16, 16), (16, 64, 16), (1, 64, 1), (64, 1, 1), (64, None, 1), (64, "64", 1), (64, True, 1), (64, -5, 1)],
)
def test_the_smaller_number_holds(ours: int, theirs: object, agreed: int) -> None:
    assert agreed_items(ours, {} if theirs is None else {PACK_ITEMS: theirs}) == agreed


@pytest.mark.parametrize("pack_items", [0, -1, 129, True, 2.0, "2", None])
def test_a_pack_that_cannot_be_is_named(pack_items: int) -> None:
    with pytest.raises(
        ConfigError, match=r"pack_items=.*1 to 128 items, at most half of the window, which is 256 \(option window\)"
    ):
        require_pack(pack_items, 256)


def test_a_pack_has_a_limit_of_its_own() -> None:
    with pytest.raises(ConfigError, match=r"pack_items=2000: pack_items must be 1 to 1024 items$"):
        require_pack(2000)
    assert require_pack(1, 1) == 1


# the credit


@given(st.integers(1, 20), st.integers(0, 100), st.tuples(*[st.integers(0, 40)] * 3), st.integers(0, 5))
def test_what_is_granted_fits_the_window(pack: int, demand: int, on_hand: tuple[int, int, int], credit: int) -> None:
    buffered, unsettled, spare = on_hand
    ledger = CreditLedger(max(1, buffered + unsettled + credit * pack + spare))
    ledger.pack = pack
    ledger.demand, ledger.buffered, ledger.unsettled = demand, buffered, unsettled
    granted = ledger.grant(credit)
    assert granted >= 0
    if granted:
        assert buffered + unsettled + (credit + granted) * pack <= ledger.window
        assert demand > buffered, "what is there already goes first"
        assert (credit + granted) * pack <= demand - buffered or (credit, granted) == (0, 1)


def test_a_part_of_a_pack_is_granted_only_when_nothing_is_on_its_way() -> None:
    ledger = CreditLedger(16)
    ledger.pack = 8
    ledger.request(3)
    assert ledger.grant(0) == 1
    assert ledger.grant(1) == 0
    ledger.receive(8)
    assert ledger.deliver() == 3
    assert ledger.grant(0) == 0, "nothing is wanted"
    ledger.request(5)
    assert ledger.grant(0) == 0, "what is wanted is here"
    assert ledger.deliver() == 5
    ledger.request(20)
    assert ledger.grant(0) == 1, "eight of sixteen are unsettled"


def test_the_publisher_is_asked_for_full_packs() -> None:
    ledger = SenderLedger()
    ledger.pack = 8
    assert ledger.request(3, 100) == 24
    ledger.receive(24)
    assert ledger.request(3, 100) == 0


# single items


KINDS = st.sampled_from(
    [
        ACCEPTED,
        RELEASED,
        FAILED,
        Outcome("modified"),
        Outcome("modified", delivery_failed=True, undeliverable_here=True),
        Outcome("rejected", "x:bad", "unreadable"),
    ]
)


@given(st.lists(KINDS, min_size=1, max_size=8))
def test_what_became_of_each_item_reaches_its_own_hold(outcomes: list[Outcome]) -> None:
    size = len(outcomes)
    pair = Pair(window=16, pack_items=8, items=size)
    pair.probe.request(size)
    for hold, outcome in zip(pair.probe.holds, outcomes, strict=True):
        match outcome.kind:
            case "accepted":
                hold.done()
            case "released":
                hold.release()
            case _:
                hold.fail(outcome.as_error())
    assert pair.receiver.ledger.unsettled == 0
    names = {"accepted": "done", "released": "released", "rejected": "failed", "modified": "failed"}
    assert pair.source.outcomes == [names[outcome.kind] for outcome in outcomes]
    for error, outcome in zip(pair.source.errors, outcomes, strict=True):
        if error is not None:
            assert isinstance(error, DeliveryFailed)
            assert (error.outcome, error.condition) == (outcome.kind, outcome.condition)
            assert error.undeliverable_here == outcome.undeliverable_here
    assert pair.sender.accepted == outcomes.count(ACCEPTED)


def test_outcomes_that_make_no_sense_count_for_nothing() -> None:
    told = Outcome("modified", annotations={OUTCOMES: [[7, "released"], [-1, "released"], ["a", "b"], 5, [], [0, "?"]]})
    assert told_outcomes(told, 2) == [FAILED, ACCEPTED]
    assert told_outcomes(Outcome("modified", annotations={OUTCOMES: "x"}), 2)[1].kind == "modified"
    assert told_outcomes(RELEASED, 2) == [RELEASED, RELEASED]


# the link


class Pair:
    """Both ends over the local driver, with packs."""

    def __init__(
        self,
        *,
        window: int,
        pack_items: int,
        items: int = 0,
        offered: int = 64,
        settlement: Settlement = Settlement.AT_LEAST_ONCE,
        hold: bool = True,
        on_failure: FailureStrategy = END,
    ) -> None:
        self.settlement = settlement
        self.finished: list[BaseException | None] = []
        self.probe = ProbeSubscriber[int](hold=hold)
        self.source = ManualPublisher[int](self._send)
        self.left = iter(range(items))
        self.receiver = LinkSubscription(
            self.probe,
            ReceivingOptions(decode=decode, window=window, on_failure=on_failure, pack_items=pack_items),
            never,
        )
        self.sender = LinkSubscriber(
            self.source,
            SendingOptions(
                encode=encode,
                settlement=settlement,
                settle_before_detach=True,
                expose_errors=True,
                resends=True,
                pack_items=offered,
            ),
            self.finished.append,
        )
        self.connect()

    def _send(self, n: int) -> None:
        for _ in range(n):
            item = next(self.left, None)
            if item is None:
                self.source.complete()
                return
            self.source.next(item)

    def connect(self) -> None:
        receiving, sending = LocalDriver.pair()
        receiving_link, sending_link = self.receiver.bind("local", receiving), self.sender.bind("local", sending)
        receiving.bind(receiving_link)
        sending.bind(sending_link)
        frame = Attach("local", Role.RECEIVER, "a", "", self.settlement, properties=self.receiver.properties())
        receiving_link.send(frame)
        sending_link.send(Attach("local", Role.SENDER, "a", "", self.settlement, properties=self.sender.properties()))
        self.sender.start()
        self.driver = receiving

    def lose(self) -> None:
        self.driver.cut(LOST, returns=True)


ACTIONS = st.lists(
    st.tuples(st.sampled_from(["request", "settle", "lose"]), st.integers(1, 12)), min_size=3, max_size=30
)


@pytest.mark.slow
@settings(max_examples=100)
@given(ACTIONS, st.integers(2, 8), st.integers(2, 8), st.sampled_from(Settlement))
def test_the_bound_holds_and_nothing_is_missing(
    actions: list[tuple[str, int]], ours: int, theirs: int, settlement: Settlement
) -> None:
    items, window = 30, 16
    pair = Pair(window=window, pack_items=ours, offered=theirs, items=items, settlement=settlement)
    settled = losses = requested = 0
    for action, count in [*actions, *[("request", 5), ("settle", 5)] * 2 * items]:
        if action == "request":
            requested += count
            pair.probe.request(count)
        elif action == "settle":
            now = pair.probe.holds[settled : settled + count]
            settled += len(now)
            for hold in now:
                hold.done()
        else:
            losses += 1
            pair.lose()
            pair.connect()
        ledger = pair.receiver.ledger
        assert ledger.pack == min(ours, theirs)
        assert ledger.buffered + ledger.unsettled + max(pair.driver.credit(), 0) * ledger.pack <= window
        assert len(pair.probe.items) <= requested
        if pair.finished:
            break
    event(f"losses: {min(losses, 3)}")
    assert pair.finished == [None]
    if settlement is Settlement.AT_LEAST_ONCE:
        assert sorted(set(pair.probe.items)) == list(range(items))
        assert pair.sender.accepted == items
        assert losses or pair.probe.items == list(range(items))
    else:
        assert losses or pair.probe.items == list(range(items))
        assert pair.probe.items == sorted(set(pair.probe.items))


# the sender by itself


class PackingSender:
    def __init__(self, *, linger_s: float = 0.0, most_bytes: int = 0, publish: bool = True) -> None:
        self.source = ManualPublisher[bytes]()
        self.finished: list[BaseException | None] = []
        self.end = LinkSubscriber(
            self.source,
            SendingOptions(
                encode=bytes, settle_before_detach=publish, fail_on_refusal=publish, pack_items=4, linger_s=linger_s
            ),
            self.finished.append,
        )
        self.driver = PlayedDriver()
        self.driver.link = self.end.bind("test", self.driver)
        self.driver.link.send(Attach("test", Role.SENDER, "", "a", properties=self.end.properties()))
        self.driver.receive(
            Attach("test", Role.RECEIVER, "", "a", properties={PACK_ITEMS: 8}, max_message_bytes=most_bytes)
        )

    def grant(self, credit: int, *, drain: bool = False) -> None:
        self.driver.wire = credit
        self.driver.receive(Flow(credit, drain))

    @property
    def sizes(self) -> list[int]:
        """How many items each message carries."""
        transfers = [frame for frame in self.driver.sent if isinstance(frame, Transfer)]
        return [len(decode_pack(message) or [message]) for frame in transfers for message in frame.payloads]


def test_only_what_is_there_is_packed() -> None:
    played = PackingSender()
    played.grant(3)
    assert played.source.requested == 12
    played.source.next(b"a")
    played.driver.turn()
    played.source.next(b"b", b"c", b"d", b"e", b"f")
    played.driver.turn()
    assert played.sizes == [1, 4, 1]
    assert played.end.unsettled == 6


def test_what_is_too_large_together_goes_in_smaller_packs() -> None:
    most_bytes = most_pack_bytes([b"x" * 10] * 2)
    played = PackingSender(most_bytes=most_bytes)
    played.grant(9)
    played.source.next(b"x" * 10, b"x" * 10, b"x" * 10, b"x" * 10, b"x" * most_bytes, b"y")
    played.driver.turn()
    assert played.sizes == [2, 2, 1, 1]


@given(st.lists(st.integers(0, 3000), min_size=1, max_size=100), st.integers(1, 64), st.integers(100, MAX_PACK_BYTES))
@example([1024] * 64, 64, MAX_PACK_BYTES)
@example([2500] * 64, 64, MAX_PACK_BYTES)
def test_packs_have_all_items_in_their_order_and_none_is_too_large(
    sizes: list[int], most_items: int, most_bytes: int
) -> None:
    packer = Packer(0.0, keeps=False)
    packer.most_items, packer.most_bytes = most_items, most_bytes
    items = [number.to_bytes(2) + bytes(size) for number, size in enumerate(sizes)]
    packs = packer.divide(items, len(items), len(items))
    assert [item for pack in packs for item in pack] == items
    assert all(0 < len(pack) <= most_items for pack in packs)
    assert all(len(pack) == 1 or most_pack_bytes(pack) <= most_bytes for pack in packs)


def test_packs_of_a_kilobyte_have_a_frame_each() -> None:
    packer = Packer(0.0, keeps=False)
    packer.most_items = 64
    packs = packer.divide([bytes(1024)] * 200, 200, 10)
    assert [len(pack) for pack in packs] == [62, 62, 62, 14]
    packer.most_items = 200
    assert len(packer.divide([bytes(1024)] * 200, 200, 1)[0]) == 200  # a frame would have less than half of them
    assert max(len(encode_bodies(pack)) for pack in packs) <= FRAME_PACK_BYTES


def test_a_pack_may_wait_for_more_items_for_a_while() -> None:
    played = PackingSender(linger_s=0.5)
    played.grant(9)
    played.source.next(b"a", b"b")
    played.driver.turn()
    assert played.sizes == []
    assert [delay_s for delay_s, _ in played.driver.calls] == [0.5]
    played.source.next(b"c", b"d", b"e")
    played.driver.turn()
    assert played.sizes == [4]
    assert len(played.driver.calls) == 1, "one is enough"
    played.driver.calls[0][1]()
    played.driver.turn()
    assert played.sizes == [4, 1]
    played.source.next(b"f")
    played.driver.turn()
    assert played.sizes == [4, 1]
    assert len(played.driver.calls) == 2


@pytest.mark.parametrize("why", ["drain", "completion"])
def test_nothing_waits_for_what_will_not_come(why: str) -> None:
    played = PackingSender(linger_s=0.5)
    played.grant(9)
    played.source.next(b"a", b"b")
    played.driver.turn()
    assert played.sizes == []
    if why == "drain":
        played.grant(9, drain=True)
    else:
        played.source.complete()
        played.driver.turn()
    assert played.sizes == [2]


def test_one_item_of_a_pack_that_is_refused_ends_the_publishing() -> None:
    played = PackingSender()
    played.grant(2)
    played.source.next(b"a", b"b", b"c")
    played.driver.turn()
    told = Outcome("modified", delivery_failed=True, annotations={OUTCOMES: [[1, "rejected", "x:bad", "no"]]})
    played.driver.receive(Disposition([0], told))
    assert played.source.outcomes == ["done", "failed", "done"]
    assert played.source.cancelled
    assert played.end.accepted == 2


@pytest.mark.parametrize(
    ("message", "text"),
    [(encode_pack([b"x"] * 5), "5 items, but only 4"), (encode_pack([b"x"])[:-1], "the items that it announces")],
)
def test_a_pack_against_the_agreement_breaks_the_link(message: bytes, text: str) -> None:
    pair = Pair(window=16, pack_items=4)
    assert pair.receiver._link is not None
    with pytest.raises(RemoteProtocolError, match=text):
        pair.receiver._link.receive(Transfer([1], [message]))


def test_packs_and_ordinary_messages_are_runs_of_their_own() -> None:
    (one, few, pack, last) = unpack(
        [None, 1, 2, 3, 4], [encode_pack([b"a", b"b"]), b"c", b"d", encode_pack([b"e", b"f"]), b"g"], 4
    )
    assert (one[0], list(one[1])) == ([None, None], [b"a", b"b"])
    assert few == ([1, 2], [b"c", b"d"])
    assert isinstance(pack[0], PackItems)
    assert (pack[0].pack.handle, list(pack[0].places), list(pack[1])) == (3, [0, 1], [b"e", b"f"])
    assert last == ([4], [b"g"])


def test_packs_that_came_settled_are_one_run_up_to_a_size() -> None:
    packs = [[b"%d of %d" % (item, pack) for item in range(100)] for pack in range(5)]
    messages = [encode_pack(items) for items in packs]
    runs = unpack([None] * 5, messages, 100)
    assert [len(items) for _, items in runs] == [len(handles) for handles, _ in runs] == [200, 200, 100]
    assert [item for _, items in runs for item in items] == [item for items in packs for item in items]
    handles, items = runs[0]
    assert (set(handles), items[-1], items[99:101]) == ({None}, packs[1][-1], [packs[0][-1], packs[1][0]])


def test_packs_stay_in_their_order_if_only_some_came_settled() -> None:
    packs = [encode_pack([b"%d" % pack]) for pack in range(5)]
    runs = unpack([None, 1, None, None, 2], packs, 4)
    assert [list(items) for _, items in runs] == [[b"0"], [b"1"], [b"2", b"3"], [b"4"]]


def test_a_pack_is_settled_when_all_its_items_are_whether_known_by_runs_or_one_by_one() -> None:
    runs = unpack([1, 2, 3, 4], [b"a", encode_pack([b"b", b"c", b"d"]), encode_pack([b"e", b"f"]), b"g"], 4)
    (ordinary, _), (first, _), (second, _), _ = runs
    assert settled_whole([first[0]], [(FAILED, second[0])], [ordinary, first[1:2]]) == ([1], [])
    whole, others = settled_whole([second[1], 4], [], [first[2:]])
    assert sorted(whole) == [2, 4]
    ((outcome, handle),) = others
    assert handle == 3
    assert told_outcomes(outcome, 2) == [FAILED, ACCEPTED]


def test_what_a_pack_carries_is_kept_once() -> None:
    pair = Pair(window=16, pack_items=4, items=5)
    pair.probe.request(5)
    assert pair.sender.unsettled == 5
    assert len(pair.sender._deliveries.unsettled._kept) == 1, "the one item that went by itself"
    for hold in pair.probe.holds:
        hold.done()
    assert pair.sender._deliveries.unsettled._kept == {}


@pytest.mark.parametrize(("window", "pack", "held"), [(1024, 64, 961), (16, 4, 13), (16, 1, 16)])
def test_what_can_be_held_leaves_room_for_a_whole_pack(window: int, pack: int, held: int) -> None:
    pair = Pair(window=window, pack_items=pack)
    assert pair.receiver.window == held
