"""`Producer`, shown with a queue: how producers share its room, and what a wrong one is told."""

from rstreams._core.demand import UNBOUNDED
from rstreams.errors import ConnectionLost
from rstreams.node.memory_storage import MemoryStorage
from rstreams.node.queue import Queue
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.node.queues import RunsLink, consumed, encoded, filled, produced


def test_the_bound_holds_and_every_place_can_be_used() -> None:
    queue = Queue("q", MemoryStorage(10))
    link = produced(queue)
    sent = 0
    while link.outstanding:
        link.next(*encoded("x"))
        sent += 1
        now = queue.statistics()
        assert now.ready + now.credit <= 10
    assert sent == 10
    probe = consumed(queue, 1)
    assert link.outstanding == 0
    probe.holds[0].done()
    assert link.outstanding == 1


def test_credit_travels_in_batches() -> None:
    queue = Queue("q", MemoryStorage(1024))
    link = produced(queue)
    consumed(queue, UNBOUNDED, hold=False)
    for number in range(10_000):
        link.next(*encoded(str(number)))
    assert len(link.requests) < 120
    assert 128 <= max(link.requests) <= 256


def test_an_idle_producer_holds_little_and_leaves_room_for_many() -> None:
    queue = Queue("q", MemoryStorage(1024))
    idle = [produced(queue) for _ in range(100)]
    assert all(link.outstanding for link in idle)
    assert max(link.outstanding for link in idle) <= 8


def test_the_share_of_one_that_was_busy_leaves_room_for_those_who_come() -> None:
    queue = Queue("q", MemoryStorage(1024))
    consumed(queue, UNBOUNDED, hold=False)
    busy = []
    for _ in range(10):
        link = produced(queue)
        busy.append(link)
        for _ in range(2000):
            link.next(*encoded("x"))
    assert all(link.outstanding for link in busy)
    assert sum(link.outstanding for link in busy) <= 1024


def test_those_who_wait_are_served_in_the_order_they_came() -> None:
    queue = Queue("q", MemoryStorage(4))
    first = produced(queue)
    while first.outstanding:
        first.next(*encoded("x"))
    second, third = produced(queue), produced(queue)
    assert (second.outstanding, third.outstanding) == (0, 0)
    probe = consumed(queue, 4)
    settled = []
    for hold in probe.holds[:3]:
        hold.done()
        settled.append((first.outstanding, second.outstanding, third.outstanding))
    assert settled == [(1, 0, 0), (1, 1, 0), (1, 1, 1)]


def test_busy_producers_get_equal_parts_of_a_full_queue() -> None:
    queue = Queue("q", MemoryStorage(60))
    links = [produced(queue) for _ in range(3)]
    probe = consumed(queue, UNBOUNDED)
    sent = [0, 0, 0]
    for _ in range(3000):
        for index, link in enumerate(links):
            if link.outstanding:
                link.next(*encoded("x"))
                sent[index] += 1
        while probe.holds:
            probe.holds.pop(0).done()
            if len(probe.holds) < 50:
                break
    assert max(sent) - min(sent) <= 60


def test_a_producer_that_leaves_gives_its_places_to_the_others() -> None:
    queue = Queue("q", MemoryStorage(2))
    first, second = produced(queue), produced(queue)
    third, fourth = produced(queue), produced(queue)
    assert [link.outstanding for link in (first, second, third, fourth)] == [1, 1, 0, 0]
    third.complete()
    first.error(ConnectionLost("gone"))
    assert [link.outstanding for link in (second, fourth)] == [1, 1]
    assert (queue.statistics().producers, queue.statistics().credit) == (2, 2)
    second.next(*encoded("a"))
    second.complete()
    assert queue.statistics().ready == 1


def test_busy_producers_have_equal_credit_and_one_among_idle_ones_has_most() -> None:
    queue = Queue("q", MemoryStorage(1100))
    links = [produced(queue) for _ in range(8)]
    consumed(queue, UNBOUNDED, hold=False)
    for _ in range(500):
        for link in links:
            link.next(*encoded("x"))
    assert all(50 <= link.outstanding <= 110 for link in links)
    alone = Queue("q", MemoryStorage(1100))
    idle = [produced(alone) for _ in range(50)]
    busy = produced(alone)
    consumed(alone, UNBOUNDED, hold=False)
    for _ in range(500):
        busy.next(*encoded("x"))
    assert max(link.outstanding for link in idle) == 8
    assert max(busy.requests) >= 80


def test_many_who_wait_divide_what_becomes_free() -> None:
    queue = Queue("q", MemoryStorage(2560))
    idle, busy = produced(queue), produced(queue)
    while busy.outstanding:
        busy.next(*encoded("x"))
    busy.complete()
    waiting = [produced(queue) for _ in range(20)]
    assert not any(link.outstanding for link in waiting)
    idle.complete()
    assert [link.outstanding for link in waiting] == [1] * 20


def test_a_producer_that_ends_while_its_item_is_handed_over_gets_nothing_more() -> None:
    queue = Queue("q", MemoryStorage(1))
    link = produced(queue)
    probe = ProbeSubscriber[bytes](10, on_item=lambda _: link.complete())
    queue.subscribe(probe)
    link.next(*encoded("a"))
    assert (link.requests, queue.statistics().credit, queue.statistics().producers) == ([1], 0, 0)
    assert produced(queue).outstanding == 1


def test_a_producer_that_ends_inside_of_a_run_has_the_rest_of_it_back() -> None:
    queue = Queue("q", MemoryStorage(10), "reject")
    link = RunsLink(queue, once=False)
    queue.subscribe(ProbeSubscriber[bytes](10, on_item=lambda _: link.producer.on_complete()))
    link.next(*encoded("a", "b", "c"))
    assert link.outcomes == ["done", "released", "released"]
    assert queue.statistics().enqueued == 1


def test_required_3_03_a_publisher_that_answers_inside_request_does_not_recurse() -> None:
    queue = Queue("q", MemoryStorage(1))
    consumed(queue, UNBOUNDED, hold=False)
    numbers = iter(range(5000))
    link = ManualPublisher[bytes]()

    def answer(_: int) -> None:
        for number in numbers:
            link.next(*encoded(str(number)))
            return

    link.on_request = answer
    link.subscribe(queue.producer())
    assert queue.statistics().accepted == 5000


def test_signals_after_a_producers_end_are_ignored() -> None:
    queue = Queue("q", MemoryStorage(8))
    link = produced(queue)
    link.complete()
    before = queue.statistics()
    link.next(*encoded("late"))
    link.complete()
    link.error(ValueError("late"))
    assert queue.statistics() == before


def test_a_producer_that_fails_before_it_began_was_never_there() -> None:
    queue = Queue("q")
    producer = queue.producer()
    producer.on_error(ConnectionLost("gone"))
    late = ManualPublisher[bytes]()
    late.subscribe(producer)
    assert late.cancelled
    assert queue.statistics().producers == 0


def test_required_2_05_a_second_subscription_of_a_producer_is_cancelled() -> None:
    queue = Queue("q")
    producer = queue.producer()
    one, two = ManualPublisher[bytes](), ManualPublisher[bytes]()
    one.subscribe(producer)
    two.subscribe(producer)
    assert (one.cancelled, two.cancelled) == (False, True)
    assert queue.statistics().producers == 1


def test_required_1_01_a_producer_that_sends_too_much_is_ended_and_has_its_item_back() -> None:
    queue = Queue("q", MemoryStorage(1))
    link = filled(queue, "a")
    link.requested += 1  # the test lets it send what nobody asked for
    link.next(*encoded("b"))
    assert (link.outcomes, link.cancelled) == (["done", "released"], True)
    assert (queue.statistics().ready, queue.statistics().producers) == (1, 0)


def test_a_publisher_that_answers_at_once_fills_the_queue_and_no_more() -> None:
    queue = Queue("q", MemoryStorage(100))
    link = ManualPublisher[bytes]()
    link.on_request = lambda n: link.next(*encoded(*["x"] * n))
    link.subscribe(queue.producer())
    assert queue.statistics().ready == 100
    probe = consumed(queue, 50, hold=False)
    assert len(probe.items) == 50
    assert queue.statistics().ready == 100
