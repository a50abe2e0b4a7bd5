"""What holds for all push sources."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Subscription
from rstreams.errors import DemandError, SpecViolation
from rstreams.push import EmitResult, Latest, Multicast, Replay, Unicast
from rstreams.testing import ProbeSubscriber

Pushing = Unicast[int] | Multicast[int] | Replay[int] | Latest[int]

KINDS: dict[str, Callable[[], Pushing]] = {
    "Unicast": Unicast[int],
    "Multicast": Multicast[int],
    "Replay": partial(Replay[int], 3),
    "Latest": Latest[int],
}

every = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)


@every
def test_items_and_completion_arrive(make: Callable[[], Pushing]) -> None:
    pushing, probe = make(), ProbeSubscriber[int](UNBOUNDED)
    pushing.subscribe(probe)

    assert [pushing.emit(1), pushing.emit(2)] == [EmitResult.OK] * 2
    assert pushing.complete() is EmitResult.OK

    assert probe.items == [1, 2]
    assert probe.signals == ["on_subscribe", "on_next", "on_next", "on_complete"]


@every
def test_an_error_arrives(make: Callable[[], Pushing]) -> None:
    pushing, probe = make(), ProbeSubscriber[int](UNBOUNDED)
    pushing.subscribe(probe)
    error = ValueError("pushed")

    assert pushing.fail(error) is EmitResult.OK

    assert probe.error is error


@every
def test_after_the_end_nothing_is_taken(make: Callable[[], Pushing]) -> None:
    for completes in (True, False):
        pushing, probe = make(), ProbeSubscriber[int](UNBOUNDED)
        pushing.subscribe(probe)
        pushing.complete() if completes else pushing.fail(ValueError())
        signals = list(probe.signals)

        assert pushing.emit(1) is EmitResult.TERMINATED
        assert pushing.complete() is EmitResult.TERMINATED
        assert pushing.fail(ValueError()) is EmitResult.TERMINATED
        assert probe.signals == signals


@every
def test_the_end_is_there_for_who_comes_later(make: Callable[[], Pushing]) -> None:
    pushing, probe = make(), ProbeSubscriber[int]()
    pushing.complete()

    pushing.subscribe(probe)

    assert probe.signals == ["on_subscribe", "on_complete"]


@every
def test_no_item_comes_without_demand(make: Callable[[], Pushing]) -> None:
    pushing, probe = make(), ProbeSubscriber[int](1)
    pushing.subscribe(probe)

    pushing.emit(1)
    pushing.emit(2)
    assert probe.items == [1]
    probe.request(1)

    assert probe.items == [1, 2]


@every
def test_completion_comes_behind_what_waits(make: Callable[[], Pushing]) -> None:
    pushing, probe = make(), ProbeSubscriber[int]()
    pushing.subscribe(probe)
    pushing.emit(1)
    pushing.complete()
    assert probe.signals == ["on_subscribe"]

    probe.request(1)

    assert probe.signals == ["on_subscribe", "on_next", "on_complete"]


@every
def test_an_error_comes_behind_what_waits(make: Callable[[], Pushing]) -> None:
    pushing, probe = make(), ProbeSubscriber[int]()
    pushing.subscribe(probe)
    pushing.emit(1)
    pushing.fail(ValueError())
    assert probe.signals == ["on_subscribe"]

    probe.request(1)

    assert probe.signals == ["on_subscribe", "on_next", "on_error"]


@every
def test_what_is_pushed_out_of_an_item_waits_its_turn(make: Callable[[], Pushing]) -> None:
    pushing = make()
    deep = 0
    deepest = 0

    def on_item(item: int) -> None:
        nonlocal deep, deepest
        deep += 1
        deepest = max(deepest, deep)
        if item < 5000:
            assert pushing.emit(item + 1) is EmitResult.OK
        else:
            pushing.complete()
        deep -= 1

    probe = ProbeSubscriber[int](UNBOUNDED, on_item=on_item)
    pushing.subscribe(probe)
    pushing.emit(0)

    assert probe.items == list(range(5001))
    assert probe.completed
    assert deepest == 1


@every
def test_requesting_one_more_in_on_next_does_not_recurse(make: Callable[[], Pushing]) -> None:
    pushing = make()
    probe = ProbeSubscriber[int](1, on_item=lambda _item: probe.request(1))
    pushing.subscribe(probe)

    for item in range(5000):
        assert pushing.emit(item) is EmitResult.OK

    assert probe.items == list(range(5000))


@every
def test_a_subscriber_that_cancels_gets_nothing_more(make: Callable[[], Pushing]) -> None:
    pushing = make()
    probe = ProbeSubscriber[int](9, on_item=lambda _item: probe.cancel())
    pushing.subscribe(probe)
    assert pushing.subscribers == 1

    pushing.emit(1)
    pushing.emit(2)
    pushing.complete()

    assert probe.signals == ["on_subscribe", "on_next"]
    assert pushing.subscribers == 0


@every
def test_a_cancel_in_on_subscribe(make: Callable[[], Pushing]) -> None:
    class Cancels(ProbeSubscriber[int]):
        def on_subscribe(self, subscription: Subscription) -> None:
            super().on_subscribe(subscription)
            subscription.request(1)
            subscription.cancel()

    pushing, probe = make(), Cancels()
    pushing.subscribe(probe)
    pushing.emit(1)

    assert probe.signals == ["on_subscribe"]
    assert pushing.subscribers == 0


@every
def test_a_wrong_demand_ends_the_subscription(make: Callable[[], Pushing]) -> None:
    pushing, probe = make(), ProbeSubscriber[int](1)
    pushing.subscribe(probe)

    probe.request(0)
    pushing.emit(1)

    assert isinstance(probe.error, DemandError)
    assert probe.items == []


@every
def test_what_the_only_subscriber_raises_reaches_who_emits(make: Callable[[], Pushing]) -> None:
    def refuse(_item: int) -> None:
        raise ArithmeticError

    pushing, probe = make(), ProbeSubscriber[int](9, on_item=refuse)
    pushing.subscribe(probe)

    with pytest.raises(ArithmeticError):
        pushing.emit(1)

    assert pushing.subscribers == 0
    pushing.emit(2)
    assert probe.items == [1]


@every
def test_holds_do_nothing(make: Callable[[], Pushing]) -> None:
    pushing, probe = make(), ProbeSubscriber[int](9, hold=True)
    pushing.subscribe(probe)
    pushing.emit(1)

    probe.holds[0].fail(ValueError())
    pushing.emit(2)

    assert probe.items == [1, 2]


@every
def test_nobody_cannot_subscribe(make: Callable[[], Pushing]) -> None:
    nobody: Any = None
    with pytest.raises(TypeError, match=r"1\.9"):
        make().subscribe(nobody)


@every
def test_no_error_is_an_error(make: Callable[[], Pushing]) -> None:
    pushing, probe = make(), ProbeSubscriber[int](9)
    pushing.subscribe(probe)
    no_error: Any = None

    pushing.fail(no_error)

    assert isinstance(probe.error, SpecViolation)


@every
@pytest.mark.parametrize("call", ["emit", "complete", "fail"])
def test_a_call_from_another_thread_than_the_subscribers_is_refused(make: Callable[[], Pushing], call: str) -> None:
    pushing, probe = make(), ProbeSubscriber[int](UNBOUNDED)
    pushing.subscribe(probe)
    calls: dict[str, Callable[[], EmitResult]] = {
        "emit": lambda: pushing.emit(1),
        "complete": pushing.complete,
        "fail": lambda: pushing.fail(LookupError()),
    }
    raised: list[SpecViolation] = []

    def elsewhere() -> None:
        try:
            calls[call]()
        except SpecViolation as error:
            raised.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()

    assert raised[0].rule == "2.7"
    assert f"{call}() was called in thread" in str(raised[0])
    assert probe.signals == ["on_subscribe"]
    assert pushing.emit(2) is EmitResult.OK  # nothing was changed
    assert probe.items == [2]


@pytest.mark.parametrize(
    ("kind", "completes", "answer"),
    [
        ("Unicast", False, EmitResult.CANCELLED),
        ("Multicast", False, EmitResult.NO_SUBSCRIBER),
        ("Replay", False, EmitResult.OK),  # kept for those who come later
        ("Unicast", True, EmitResult.TERMINATED),
        ("Multicast", True, EmitResult.TERMINATED),
        ("Replay", True, EmitResult.TERMINATED),
    ],
)
def test_behind_an_item_whose_only_subscriber_raised_nothing_goes_to_it(
    kind: str, answer: EmitResult, *, completes: bool
) -> None:
    pushing = KINDS[kind]()

    def refuse(_: int) -> None:
        if completes:
            pushing.complete()
        raise ValueError

    probe = ProbeSubscriber[int](UNBOUNDED, on_item=refuse)
    pushing.subscribe(probe)
    with pytest.raises(ValueError):  # noqa: PT011 - it has no text
        pushing.emit(1)
    assert pushing.emit(2) is answer
    assert probe.items == [1]


@pytest.mark.parametrize("answer", EmitResult)
def test_only_ok_is_true(answer: EmitResult) -> None:
    assert bool(answer) is (answer is EmitResult.OK)
