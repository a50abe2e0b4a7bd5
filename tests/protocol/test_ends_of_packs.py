"""Packs that do not end as usual: their link is lost, their receiver leaves, or an item fails with a text."""

from __future__ import annotations

from functools import partial

from rstreams.errors import DeliveryFailed
from rstreams.protocol.delivery import ACCEPTED, ERROR_DESCRIPTION, FailureStrategy, failed
from rstreams.protocol.frames import Detach, Disposition
from tests.protocol.test_packing import PackingSender, Pair


def test_what_was_sent_in_packs_over_a_lost_link_is_sent_again_in_its_order() -> None:
    pair = Pair(window=32, pack_items=4, items=9)
    pair.probe.request(9)
    for hold in pair.probe.holds[:4]:
        hold.done()  # the first pack
    pair.lose()
    pair.connect()
    assert pair.sender.resent == 5
    pair.probe.request(9)
    assert pair.probe.items == [*range(9), *range(4, 9)]
    assert pair.source.outcomes == ["done"] * 4 + [None] * 5
    for hold in pair.probe.holds:
        hold.done()
    assert (pair.source.outcomes, pair.sender.accepted, pair.finished) == (["done"] * 9, 9, [None])


def test_a_receiver_that_leaves_gives_back_the_items_of_its_packs() -> None:
    played = PackingSender(publish=False)
    played.grant(2)
    played.source.next(b"a", b"b", b"c", b"d", b"e")
    played.driver.turn()
    assert played.sizes == [4, 1]
    played.driver.receive(Disposition([1], ACCEPTED), Detach())
    assert played.source.outcomes == ["released"] * 4 + ["done"]
    assert (played.finished, played.end.unsettled) == ([None], 0)


def test_the_text_of_an_error_is_told_for_the_item_of_a_pack_that_it_belongs_to() -> None:
    pair = Pair(window=16, pack_items=4, items=4, on_failure=FailureStrategy(partial(failed, expose=True)))
    pair.probe.request(4)
    first, second, *others = pair.probe.holds
    first.fail(ValueError("größer"))
    second.fail(DeliveryFailed("modified", annotations={ERROR_DESCRIPTION: 5}))  # as anybody may set it
    for hold in others:
        hold.done()
    assert pair.source.outcomes == ["failed", "failed", "done", "done"]
    told = [error.annotations for error in pair.source.errors if isinstance(error, DeliveryFailed)]
    assert told == [{ERROR_DESCRIPTION: "ValueError: größer"}, {}]
