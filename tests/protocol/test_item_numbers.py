"""What became of each item of a publisher: whatever happens, the numbers add up, and name the right items."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

from hypothesis import event, given
from hypothesis import strategies as st

from rstreams.protocol.delivery import ACCEPTED, RELEASED, Outcome
from rstreams.protocol.frames import Attach, Detach, Lost, Role, Settlement, Transfer
from rstreams.protocol.item_numbers import _MOST_PIECES, ItemNumbers
from rstreams.protocol.packing import decode_pack, offer
from tests.protocol.played import LOST, REJECTED, PlayedDriver, PlayedSender, decode

OUTCOMES = (ACCEPTED, ACCEPTED, ACCEPTED, REJECTED, RELEASED, Outcome("modified", delivery_failed=True))
STEPS = st.lists(
    st.tuples(st.sampled_from(["next", "next", "grant", "settle", "settle", "lose", "bad"]), st.integers(0, 12)),
    min_size=3,
    max_size=30,
)
ENDS = ["complete", "fail", "lost", "detached", "abort", "leave"]


class Play:
    """A sending end with a source and a peer; the peer knows which items each delivery carries."""

    def __init__(self, settlement: Settlement, pack: int, *, idle: bool) -> None:
        self.settled = settlement is Settlement.AT_MOST_ONCE
        self.pack = pack
        self.played = PlayedSender(resends=True, settlement=settlement, pack_items=pack, attached=False)
        self.source = self.played.source
        self.played.driver.idle = idle
        self.carried: dict[int, list[int]] = {}  # the items of unsettled deliveries
        self.refused: dict[int, str] = {}
        self.attach()

    @property
    def driver(self) -> PlayedDriver:
        return self.played.driver

    @property
    def lives(self) -> bool:
        return not self.played.finished

    def attach(self) -> None:
        self.driver.receive(Attach("test", Role.RECEIVER, "", "a", properties=offer(self.pack)))

    def lose(self, error: Lost) -> None:
        assert self.driver.link is not None
        self.driver.link.lose(error)
        self.carried.clear()
        if self.lives and error.returns:
            idle = self.driver.idle
            self.played.driver = PlayedDriver()
            self.driver.idle = idle
            self.driver.link = self.played.end.bind("test", self.driver)
            self.driver.link.send(Attach("test", Role.SENDER, "", "a"))
            self.attach()

    def next(self, count: int) -> None:
        source = self.source
        if self.lives and not source.cancelled:
            source.next(*range(len(source.outcomes), len(source.outcomes) + min(count, source.outstanding)))
            self.driver.turn()

    def spoil(self) -> None:
        if self.lives and not self.source.cancelled and self.source.outstanding:
            self.source.next(cast("Any", "not an int"))
            self.driver.turn()

    def grant(self, credit: int) -> None:
        if self.lives:
            self.played.grant(credit)

    def settle(self, which: int) -> None:
        for frame in self.driver.take_sent():
            if isinstance(frame, Transfer):
                for tag, payload in zip(frame.deliveries, frame.payloads, strict=True):
                    items = decode_pack(payload) if payload.startswith(b"\0") else [payload]
                    assert isinstance(tag, int)
                    assert items is not None
                    self.carried[tag] = [decode(item) for item in items]
        if not self.carried or self.settled or not self.lives:
            return
        tag = sorted(self.carried)[which % len(self.carried)]
        outcome = OUTCOMES[which % len(OUTCOMES)]
        for item in self.carried.pop(tag):
            if outcome.kind != "accepted":
                self.refused[item] = outcome.kind
        self.played.settle(outcome, tag)

    def end(self, how: str) -> None:
        if how == "complete":
            self.source.complete()
        elif how == "fail":
            self.source.error(RuntimeError("the source is broken"))
        elif how == "leave":
            self.played.end.leave()
        elif how == "abort":
            self.played.end.abort()
        elif how == "detached" and self.lives:
            self.driver.receive(Detach(condition="amqp:not-found"))
        elif how == "lost" and self.lives:
            self.lose(Lost(LOST))
        self.driver.turn()

    def check(self) -> None:
        end, outcomes = self.played.end, self.source.outcomes
        unknown = end.outcome_unknown + end.unsettled
        held = len(self.played.end._items.payloads) - len(end._items.numbers.again)
        assert end.accepted + len(end.refused) + unknown + end.unsent + held == len(outcomes)
        assert {number: why.kind for number, why in end.refused.items()} == self.refused
        if not self.settled:
            assert end.accepted == outcomes.count("done")


@given(
    STEPS,
    st.sampled_from(ENDS),
    st.sampled_from([Settlement.AT_LEAST_ONCE, Settlement.AT_LEAST_ONCE, Settlement.AT_MOST_ONCE]),
    st.sampled_from([1, 1, 3]),
    st.booleans(),
)
def test_the_numbers_add_up_to_what_the_source_gave_and_name_what_was_refused(
    steps: list[tuple[str, int]],
    how: str,
    settlement: Settlement,
    pack: int,
    idle: bool,  # noqa: FBT001 - hypothesis chooses it
) -> None:
    play = Play(settlement, pack, idle=idle)
    play.grant(8)
    play.next(5)
    for step, number in steps:
        if step == "next":
            play.next(number)
        elif step == "grant":
            play.grant(number)
        elif step == "settle":
            play.settle(number)
        elif step == "lose" and play.lives:
            play.lose(Lost(LOST, returns=True))
        elif step == "bad" and number == 0:
            play.spoil()
        play.check()
    play.end(how)
    play.check()
    event(f"{how}, refused: {min(len(play.refused), 2)}")


def test_the_pieces_of_deliveries_that_are_settled_are_forgotten() -> None:
    numbers = ItemNumbers()
    for tag in range(3 * _MOST_PIECES):
        numbers.take(1)  # of an item that is not sent
        numbers.send(tag, numbers.take(1), partial(max, 0, tag - 10))
        assert all(numbers.of(known) == 2 * known + 1 for known in range(max(tag - 10, 0), tag + 1))
    assert len(numbers._firsts) <= _MOST_PIECES + 10
