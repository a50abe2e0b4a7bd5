"""A served stream: the publisher itself, counted."""

import pytest

from rstreams.errors import ConfigError
from rstreams.node.served import Served
from rstreams.testing import ManualPublisher, ProbeSubscriber


def test_demand_items_holds_and_cancel_pass_and_are_counted() -> None:
    source = ManualPublisher[str]()
    served = Served("prices", source)
    probe = ProbeSubscriber[str](2, hold=True)
    served.subscribe(probe)
    source.next("a", "b")
    assert (source.requested, probe.items, source.outcomes) == (2, ["a", "b"], [None, None])
    probe.holds[0].done()
    probe.holds[1].release()
    assert source.outcomes == ["done", "released"]
    probe.cancel()
    probe.cancel()
    source.requested += 1
    source.next("late")
    source.complete()
    assert source.cancelled
    assert probe.items == ["a", "b"]
    now = served.statistics()
    assert (now.subscriptions, now.subscribers, now.delivered, now.cancelled, now.completed) == (1, 0, 2, 1, 0)


def test_each_end_is_counted_once() -> None:
    source = ManualPublisher[str]()
    served = Served("prices", source)
    completed, failed = ProbeSubscriber[str](), ProbeSubscriber[str]()
    served.subscribe(completed)
    assert served.statistics().subscribers == 1
    source.complete()
    source.error(ValueError("after the end"))
    served.subscribe(failed)
    source.error(ValueError("no"))
    source.complete()
    failed.cancel()
    assert (completed.signals, failed.signals) == (["on_subscribe", "on_complete"], ["on_subscribe", "on_error"])
    now = served.statistics()
    assert (now.subscriptions, now.subscribers, now.completed, now.failed, now.cancelled) == (2, 0, 1, 1, 0)


def test_required_1_09_none_is_no_subscriber() -> None:
    with pytest.raises(TypeError, match=r"1\.9"):
        Served("prices", ManualPublisher[str]()).subscribe(None)  # type: ignore[arg-type]


def test_a_name_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match=r"served stream\(name="):
        Served("$statistics", ManualPublisher[str]())
