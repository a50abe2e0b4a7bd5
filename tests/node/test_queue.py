"""The queue: competing consumers, what is given back, and what it is called."""

import logging

import pytest

from rstreams import Node
from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Suspendable
from rstreams.errors import ConfigError, DeliveryFailed, DemandError
from rstreams.node.memory_storage import MemoryStorage
from rstreams.node.queue import Queue
from rstreams.testing import ProbeSubscriber
from tests.node.queues import bodies, consumed, counts, encoded, filled, produced


def test_what_is_stored_waits_for_demand_and_comes_in_order() -> None:
    queue = Queue("q")
    link = filled(queue, "a", "b", "c")
    assert link.outcomes == ["done"] * 3
    probe = consumed(queue)
    assert probe.items == []
    probe.request(2)
    assert bodies(probe) == ["a", "b"]
    probe.request(1)
    assert bodies(probe) == ["a", "b", "c"]


def test_when_request_returns_what_it_did_not_deliver_is_not_there() -> None:
    queue = Queue("q")
    filled(queue, "a", "b")
    probe = consumed(queue)
    probe.request(5)
    assert bodies(probe) == ["a", "b"]
    assert queue.statistics().ready == 0


def test_consumers_with_demand_take_turns() -> None:
    queue = Queue("q")
    one, two, three = consumed(queue, 10), consumed(queue, 2), consumed(queue)
    filled(queue, *"abcdef")
    assert bodies(one) == ["a", "c", "e", "f"]
    assert bodies(two) == ["b", "d"]
    assert bodies(three) == []


def test_an_item_without_a_hold_is_accepted_when_on_next_returns() -> None:
    queue = Queue("q")
    filled(queue, "a")
    consumed(queue, 1, hold=False)
    now = queue.statistics()
    assert (now.accepted, now.unsettled, now.ready) == (1, 0, 0)


def test_each_outcome_is_counted_and_does_what_amqp_says() -> None:
    queue = Queue("q")
    filled(queue, *"abcd")
    probe = consumed(queue, 4)
    accepted, released, failed, rejected = probe.holds
    accepted.done()
    rejected.fail(DeliveryFailed("rejected", "amqp:decode-error"))
    failed.fail(ValueError("no"))
    released.release()
    now = queue.statistics()
    assert (now.accepted, now.rejected, now.released, now.modified) == (1, 1, 1, 1)
    assert (now.ready, now.unsettled) == (2, 0)
    probe.request(5)
    assert bodies(probe)[4:] == ["b", "c"]
    assert counts(probe)[4:] == [0, 1]


def test_a_delivery_that_was_released_further_down_the_line_is_a_release() -> None:
    queue = Queue("q")
    filled(queue, "a")
    probe = consumed(queue, 2)
    probe.holds[0].fail(DeliveryFailed("released"))
    assert counts(probe) == [0, 0]
    assert queue.statistics().released == 1


def test_the_worst_of_several_holds_decides_and_only_when_all_have_let_go() -> None:
    queue = Queue("q")
    filled(queue, "a")
    probe = ProbeSubscriber[bytes](hold=True)
    probe.on_item = lambda _: probe.holds.append(probe.subscription.hold())  # type: ignore[union-attr]
    queue.subscribe(probe)
    probe.request(1)
    first, second = probe.holds
    first.fail(ValueError("no"))
    first.done()
    assert queue.statistics().unsettled == 1
    second.done()
    now = queue.statistics()
    assert (now.unsettled, now.ready, now.modified, now.accepted) == (0, 1, 1, 0)


def test_the_delivery_count_rises_with_every_failure() -> None:
    queue = Queue("q")
    filled(queue, "a")
    probe = consumed(queue, 4)
    for attempt in range(3):
        probe.holds[attempt].fail(ValueError("no"))
    assert counts(probe) == [0, 1, 2, 3]
    assert bodies(probe) == ["a"] * 4


def test_bytes_that_are_no_message_are_stored_and_redelivered_as_they_are() -> None:
    queue = Queue("q")
    produced(queue).next(b"\x00\x53\x70\xff")
    probe = consumed(queue, 2)
    probe.holds[0].fail(ValueError("no message"))
    assert probe.items == [b"\x00\x53\x70\xff"] * 2


def test_what_is_given_back_takes_its_old_place() -> None:
    queue = Queue("q")
    filled(queue, *"abcdef")
    probe = consumed(queue, 4)
    for index in (2, 0, 3, 1):
        probe.holds[index].release()
    other = consumed(queue, 10)
    assert bodies(other) == list("abcdef")


def test_a_consumer_that_cancels_still_says_what_became_of_what_it_has() -> None:
    queue = Queue("q")
    filled(queue, *"abcd")
    leaving = consumed(queue, 3)
    staying = consumed(queue, 10)
    leaving.cancel()
    assert bodies(staying) == ["d"]
    now = queue.statistics()
    assert (now.consumers, now.unsettled, now.ready) == (1, 4, 0)
    leaving.holds[0].done()
    leaving.holds[1].release()
    leaving.holds[2].fail(ValueError("no"))
    assert bodies(staying) == ["d", "b", "c"]
    assert counts(staying) == [0, 0, 1]
    now = queue.statistics()
    assert (now.accepted, now.released, now.modified, now.unsettled) == (1, 1, 1, 3)


def test_what_a_leaving_consumer_releases_does_not_come_to_it_again() -> None:
    queue = Queue("q")
    filled(queue, "a")
    leaving = consumed(queue, 100)
    leaving.cancel()
    leaving.holds[0].release()
    assert bodies(leaving) == ["a"]
    assert (queue.statistics().delivered, queue.statistics().ready) == (1, 1)


def test_cancel_inside_on_next_leaves_the_item_at_hand_its_own_outcome() -> None:
    for outcome in ("done", "fail", "kept"):
        queue = Queue("q")
        filled(queue, *"ab")
        probe = ProbeSubscriber[bytes](hold=True)

        def act(_: bytes, probe: ProbeSubscriber[bytes] = probe, outcome: str = outcome) -> None:
            if outcome == "done":
                probe.holds[0].done()
            if outcome == "fail":
                probe.holds[0].fail(DeliveryFailed("rejected"))
            probe.cancel()

        probe.on_item = act
        queue.subscribe(probe)
        probe.request(2)
        now = queue.statistics()
        told = (now.accepted, now.rejected, now.unsettled)
        assert told == {"done": (1, 0, 0), "fail": (0, 1, 0), "kept": (0, 0, 1)}[outcome]
        assert (now.ready, now.consumers, now.demand) == (1, 0, 0)


def test_cancel_inside_on_next_without_a_hold_is_an_accepted_item() -> None:
    queue = Queue("q")
    filled(queue, *"ab")
    probe = ProbeSubscriber[bytes](on_item=lambda _: probe.cancel())
    queue.subscribe(probe)
    probe.request(2)
    assert bodies(probe) == ["a"]
    now = queue.statistics()
    assert (now.accepted, now.ready) == (1, 1)


def test_request_inside_on_next_does_not_recurse() -> None:
    queue = Queue("q", MemoryStorage(5000))
    link = produced(queue)
    for number in range(2000):
        link.next(*encoded(str(number)))
    depth, deepest = 0, 0

    def more(_: bytes) -> None:
        nonlocal depth, deepest
        depth += 1
        deepest = max(deepest, depth)
        probe.request(1)
        depth -= 1

    probe = ProbeSubscriber[bytes](on_item=more)
    queue.subscribe(probe)
    probe.request(1)
    assert (len(probe.items), deepest) == (2000, 1)


def test_required_3_09_a_bad_request_ends_the_consumer() -> None:
    queue = Queue("q")
    filled(queue, *"ab")
    probe = consumed(queue, 1)
    probe.request(0)
    assert isinstance(probe.error, DemandError)
    assert probe.signals == ["on_subscribe", "on_next", "on_error"]
    assert (queue.statistics().consumers, queue.statistics().ready) == (0, 1)
    probe.request(1)
    probe.cancel()
    assert probe.signals == ["on_subscribe", "on_next", "on_error"]


def test_required_1_09_none_is_no_subscriber() -> None:
    with pytest.raises(TypeError, match=r"1\.9"):
        Queue("q").subscribe(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("taking", ["a hold", "none"])
def test_required_2_13_a_consumer_that_raises_is_ended_and_the_message_failed(
    taking: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: bytes) -> None:
        raise LookupError

    queue = Queue("q")
    link = produced(queue)
    broken = ProbeSubscriber[bytes](10, hold=taking == "a hold", on_item=fail)
    queue.subscribe(broken)
    sound = consumed(queue)
    with caplog.at_level(logging.CRITICAL, "rstreams.node"):
        link.next(*encoded("a"))
    assert link.outcomes == ["done"]
    assert broken.signals == ["on_subscribe", "on_next", "on_error"]
    assert isinstance(broken.error, LookupError)
    sound.request(1)
    assert (bodies(sound), counts(sound)) == (["a"], [1])
    now = queue.statistics()
    assert (now.modified, now.consumers) == (1, 1)


def test_a_consumer_that_raises_in_on_error_too_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(ProbeSubscriber[bytes]):
        def on_error(self, error: BaseException) -> None:
            raise error

    def fail(_: bytes) -> None:
        raise LookupError

    queue = Queue("q")
    queue.subscribe(Broken(1, on_item=fail))
    filled(queue, "a")
    assert "also raised in on_error" in caplog.text
    assert queue.statistics().ready == 1


# names and numbers


@pytest.mark.parametrize("capacity", [0, -1, 1.5, True, "many"])
def test_a_capacity_that_cannot_be(capacity: object) -> None:
    with pytest.raises(ConfigError, match=r"queue 'q'\(capacity="):
        Node().queue("q", capacity=capacity)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "$statistics", None])
def test_a_name_that_cannot_be(name: object) -> None:
    with pytest.raises(ConfigError, match=r"queue\(name="):
        Queue(name)  # type: ignore[arg-type]


# a consumer that is suspended


def suspendable(probe: ProbeSubscriber[bytes]) -> Suspendable:
    assert isinstance(probe.subscription, Suspendable)
    return probe.subscription


def test_a_suspended_consumer_is_passed_over_and_keeps_its_demand() -> None:
    queue = Queue("q")
    paused, other = consumed(queue, 2), consumed(queue, 2)
    suspendable(paused).suspend()
    suspendable(paused).suspend()
    link = filled(queue, "a", "b", "c")
    assert bodies(paused) == []
    assert bodies(other) == ["a", "b"]

    paused.request(1)
    assert bodies(paused) == []
    suspendable(paused).resume()
    suspendable(paused).resume()
    assert bodies(paused) == ["c"]
    link.next(*encoded("d", "e", "f"))
    assert bodies(paused) == ["c", "d", "e"]


def test_a_consumer_without_demand_may_be_suspended() -> None:
    queue = Queue("q")
    probe = consumed(queue)
    suspendable(probe).suspend()
    suspendable(probe).resume()
    suspendable(probe).suspend()
    filled(queue, "a")
    probe.request(1)
    assert probe.items == []
    suspendable(probe).resume()
    assert bodies(probe) == ["a"]


def test_a_consumer_may_leave_while_it_is_suspended() -> None:
    queue = Queue("q")
    probe = consumed(queue, 2)
    suspendable(probe).suspend()
    probe.cancel()
    suspendable(probe).resume()
    suspendable(probe).suspend()
    filled(queue, "a")
    assert probe.items == []
    assert bodies(consumed(queue, 1)) == ["a"]


def test_a_consumer_may_suspend_itself_with_an_item_in_its_hands() -> None:
    queue = Queue("q")
    probe = consumed(queue, UNBOUNDED)
    probe.on_item = lambda _: suspendable(probe).suspend()
    filled(queue, "a", "b")
    assert bodies(probe) == ["a"]
    suspendable(probe).resume()
    assert bodies(probe) == ["a", "b"]
