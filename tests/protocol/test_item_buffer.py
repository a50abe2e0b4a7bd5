"""The buffer of items that have come, against a plain list; and the items of a pack, against theirs."""

from __future__ import annotations

from collections.abc import Hashable

from hypothesis import given
from hypothesis import strategies as st

from rstreams.protocol.incoming_items import ItemBuffer
from rstreams.protocol.packing import Pack, PackItems

_steps = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 5), st.booleans()),
    st.tuples(st.just("take"), st.integers(1, 6), st.integers(0, 6)),
    st.tuples(st.just("clear"), st.just(0), st.just(0)),
)


@given(st.lists(_steps, max_size=40))
def test_it_is_a_queue_whose_runs_stay_whole(steps: list[tuple[str, int, int]]) -> None:
    buffer, model, made = ItemBuffer(), list[tuple[Hashable, bytes]](), 0
    for step, count, more in steps:
        if step == "put":
            numbers = range(made, made := made + count)
            packed = PackItems(Pack(made, count), range(count)) if more else list(numbers)
            items = [b"%d" % number for number in numbers]
            buffer.put((packed, items))
            model += zip(packed, items, strict=True)
        elif step == "take" and model:
            deliveries, came = buffer.take(count)
            taken = list(zip(deliveries, came, strict=True))
            assert 0 < len(taken) <= count
            assert taken == model[: len(taken)]
            handed = min(more, len(taken))
            buffer.put_back((deliveries[handed:], came[handed:]))
            model = model[handed:]
        elif step == "clear":
            buffer.clear()
            model = []
        assert len(buffer) == len(model)
        assert list(buffer) == model


def test_what_goes_back_stands_before_the_rest_of_its_run() -> None:
    buffer = ItemBuffer()
    buffer.put(([1, 2, 3], [b"a", b"b", b"c"]))
    buffer.put_back(buffer.take(2))
    buffer.take(1)
    deliveries, items = buffer.take(1)
    buffer.put_back((deliveries, items))
    assert list(buffer) == [(2, b"b"), (3, b"c")]
    assert buffer.take(5) == ([2], [b"b"])


def test_items_that_follow_each_other_in_a_pack() -> None:
    pack = Pack("handle", 5)
    items = PackItems(pack, range(5))

    assert list(items) == [(pack, place) for place in range(5)]
    assert (items[0], items[-1]) == ((pack, 0), (pack, 4))
    assert list(items[1:3][1:]) == [(pack, 2)]
    assert (pack, 3) in items
