"""publish, and what a Connectable does."""

from __future__ import annotations

from typing import Any

import pytest

from rstreams import Stream
from rstreams._core.demand import UNBOUNDED
from rstreams._stages.connectable import Connectable
from rstreams.abc import Publisher
from rstreams.errors import ConfigError, RStreamsError
from rstreams.operators.publish import publish
from rstreams.operators.replay import replay
from rstreams.sources.range import range as range_
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract


def _counted(source: Publisher[int]) -> Publisher[Any]:
    return publish(source).ref_count()


class TestPublish(OperatorContract):
    build = _counted
    model = list
    requests = ((1, [1]), (3, [3]), (UNBOUNDED, [256]))


def played(*probes: ProbeSubscriber[int]) -> tuple[ManualPublisher[int], Connectable[int]]:
    source = ManualPublisher[int]()
    published = publish(source)
    for probe in probes:
        published.subscribe(probe)
    return source, published


def test_nothing_happens_before_connect() -> None:
    first, second = ProbeSubscriber[int](5), ProbeSubscriber[int](3)
    source, published = played(first, second)
    assert source.subscriptions == 0
    assert first.signals == ["on_subscribe"]

    published.connect()
    published.connect()

    assert source.subscriptions == 1
    assert source.requests == [5]


def test_connected_without_anyone_nothing_is_asked() -> None:
    source, published = played()
    published.connect()
    assert source.requests == []

    probe = ProbeSubscriber[int](2)
    published.subscribe(probe)
    source.next(1)

    assert source.requests == [2]
    assert probe.items == [1]


def test_what_was_asked_when_all_left_waits_for_the_next() -> None:
    first, second, third = (ProbeSubscriber[int](4) for _ in range(3))
    source, published = played(first)
    published.connect()
    source.next(1)
    first.cancel()
    source.next(2, 3)
    assert not source.cancelled
    assert source.outcomes == ["done", None, None]

    published.subscribe(second)
    published.subscribe(third)
    source.next(4)

    assert first.items == [1]
    assert second.items == [2, 3, 4]
    assert third.items == [4]
    assert source.outcomes == ["done"] * 4


def test_what_all_have_got_is_not_sent_again() -> None:
    slow, later = ProbeSubscriber[int](), ProbeSubscriber[int](9)
    quick = ProbeSubscriber[int](9)
    source, published = played(quick)
    published.connect()
    published.subscribe(slow)
    source.next(1)
    slow.request(1)
    slow.cancel()
    quick.cancel()

    published.subscribe(later)

    assert later.items == []


@pytest.mark.parametrize("error", [None, ValueError("of the source")])
def test_who_comes_after_the_end_gets_the_end(error: Exception | None) -> None:
    first, late = ProbeSubscriber[int](9), ProbeSubscriber[int]()
    source, published = played(first)
    published.connect()
    source.next(1)
    source.complete() if error is None else source.error(error)

    published.subscribe(late)

    assert late.error is error
    assert late.signals == ["on_subscribe", "on_complete" if error is None else "on_error"]
    assert source.subscriptions == 1


def test_a_cancelled_connection_ends_all_that_are_there() -> None:
    quick, slow, late = ProbeSubscriber[int](9), ProbeSubscriber[int](), ProbeSubscriber[int](9)
    source, published = played(quick)
    connection = published.connect()
    published.subscribe(slow)
    source.next(1)

    connection.cancel()
    connection.cancel()
    published.subscribe(late)
    source.next(2)
    source.complete()

    assert source.cancelled
    assert source.outcomes == ["released", "done"]
    for probe in (quick, slow):
        assert isinstance(probe.error, RStreamsError)
        assert str(probe.error) == "publish: the connection to the shared source was cancelled"
        assert probe.signals[-1] == "on_error"
    assert quick.items == [1]
    assert late.signals == ["on_subscribe"], "it waits for the next connect()"


def test_a_subscriber_that_comes_back_when_its_connection_is_cancelled_waits_for_the_next() -> None:
    source = ManualPublisher[int]()
    published = Stream(source).publish()
    probe = ProbeSubscriber[int](9)
    published.on_error_resume(lambda _: published).subscribe(probe)
    published.connect().cancel()
    assert not probe.ended
    published.connect()
    source.next(1)
    assert probe.items == [1]
    assert source.subscriptions == 2


def test_a_connection_cancelled_after_the_end_does_nothing() -> None:
    probe = ProbeSubscriber[int](9)
    source, published = played(probe)
    connection = published.connect()
    source.complete()

    connection.cancel()

    assert not source.cancelled
    assert probe.signals == ["on_subscribe", "on_complete"]


def test_a_connection_cancelled_out_of_an_item() -> None:
    source = ManualPublisher[int]()
    published = publish(source)
    first = ProbeSubscriber[int](9, on_item=lambda _item: connection.cancel())
    second = ProbeSubscriber[int](9)
    published.subscribe(first)
    published.subscribe(second)
    connection = published.connect()

    source.next(1)

    assert first.items == second.items == [1]  # it was on its way
    assert second.signals == ["on_subscribe", "on_next", "on_error"]


def test_ref_count_waits_for_its_number() -> None:
    source = ManualPublisher[int]()
    counted = publish(source).ref_count(2)
    first, second = ProbeSubscriber[int](9), ProbeSubscriber[int](9)
    counted.subscribe(first)
    assert source.subscriptions == 0
    counted.subscribe(second)
    assert source.subscriptions == 1

    first.cancel()
    assert not source.cancelled
    second.cancel()
    assert source.cancelled

    counted.subscribe(ProbeSubscriber[int](9))
    assert source.subscriptions == 1
    counted.subscribe(ProbeSubscriber[int](9))
    assert source.subscriptions == 2


def test_auto_connect_begins_and_never_cancels() -> None:
    source = ManualPublisher[int]()
    automatic = publish(source).auto_connect(2)
    first, second = ProbeSubscriber[int](9), ProbeSubscriber[int](9)
    automatic.subscribe(first)
    assert source.subscriptions == 0
    automatic.subscribe(second)
    assert source.subscriptions == 1

    first.cancel()
    second.cancel()

    assert not source.cancelled


def test_a_raising_subscriber_does_not_end_a_run_that_goes_on_without_it() -> None:
    def refuse(_item: int) -> None:
        raise ArithmeticError

    source = ManualPublisher[int]()
    automatic = publish(source).auto_connect()
    automatic.subscribe(ProbeSubscriber[int](9, on_item=refuse))
    source.next(1)
    later = ProbeSubscriber[int](9)
    automatic.subscribe(later)
    source.next(2)

    assert later.items == [2]
    assert source.outcomes == ["failed", "done"]


def test_a_source_that_is_through_at_once() -> None:
    published = publish(range_(1000))
    probes = [ProbeSubscriber[int](UNBOUNDED) for _ in range(4)]
    for probe in probes:
        published.subscribe(probe)

    published.connect()

    assert all(probe.items == list(range(1000)) and probe.completed for probe in probes)


def test_nobody_cannot_subscribe() -> None:
    published = publish(range_(3))
    for publisher in (published, published.ref_count(), published.auto_connect()):
        with pytest.raises(TypeError, match=r"1\.9"):
            publisher.subscribe(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [0, -3, "1"])
def test_options_that_cannot_be(count: int) -> None:
    with pytest.raises(ConfigError, match=r"publish\(window=.*\): window must be 1 or more items"):
        publish(range_(3), window=count)
    with pytest.raises(ConfigError, match=r"ref_count\(subscribers=.*\): subscribers must be 1 or more"):
        publish(range_(3)).ref_count(count)
    with pytest.raises(ConfigError, match=r"auto_connect\(subscribers=.*\): subscribers must be 1 or more"):
        replay(range_(3), 1).auto_connect(count)
