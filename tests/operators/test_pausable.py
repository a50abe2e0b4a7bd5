from itertools import cycle
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstreams._core.demand import UNBOUNDED
from rstreams._core.sight import Counts, Scannable
from rstreams.errors import ConfigError, SpecViolation
from rstreams.operators.do_on_next import do_on_next
from rstreams.operators.map import map as map_
from rstreams.operators.pausable import Valve, pausable
from rstreams.sources.fail import fail
from rstreams.sources.from_iterable import from_iterable
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract


class TestPausable(OperatorContract):
    build = staticmethod(lambda source: pausable(source, Valve()))
    model = staticmethod(lambda items: items)
    requests = ((1, [1]), (5, [5]), (256, [256]), (257, [256]), (UNBOUNDED, [256]))


class TestPausableSmall(OperatorContract):
    build = staticmethod(lambda source: pausable(source, Valve(), size=2))
    model = staticmethod(lambda items: items)
    requests = ((1, [1]), (2, [2]), (UNBOUNDED, [2]))


class Suspendable(ManualPublisher[int]):
    """Writes down what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def suspend(self) -> None:
        self.told.append("suspend")

    def resume(self) -> None:
        self.told.append("resume")


def subscribed(
    valve: Valve, request: int = 0, *, hold: bool = False, size: int = 256
) -> tuple[Suspendable, ProbeSubscriber[int]]:
    source, probe = Suspendable(), ProbeSubscriber[int](request, hold=hold)
    pausable(source, valve, size=size).subscribe(probe)
    return source, probe


@pytest.mark.parametrize("valve", [None, 3, Valve])
def test_a_wrong_valve_is_named(valve: Valve) -> None:
    with pytest.raises(ConfigError, match=r"pausable\(valve=.*\): valve must be a Valve"):
        pausable(ManualPublisher[int](), valve)


@pytest.mark.parametrize("size", [0, -1, 1.5, "3", True])
def test_a_wrong_size_is_named(size: int) -> None:
    with pytest.raises(ConfigError, match=rf"pausable\(size={size!r}\): size must be 1 or more items"):
        pausable(ManualPublisher[int](), Valve(), size=size)


def test_a_pause_forwards_no_demand_and_keeps_what_was_asked_for() -> None:
    valve = Valve()
    source, probe = subscribed(valve, 3, hold=True)
    source.next(1)

    valve.pause()
    assert valve.paused
    probe.request(2)
    source.next(2, 3)

    assert probe.items == [1]
    assert source.requests == [3]
    assert source.outcomes == [None, None, None]
    valve.resume()
    assert not valve.paused
    assert probe.items == [1, 2, 3]
    assert source.requests == [3, 2]
    source.next(4)
    assert probe.items == [1, 2, 3, 4]
    for hold in probe.holds:
        hold.done()
    assert source.outcomes == ["done"] * 4


def test_unbounded_demand_is_asked_for_in_parts_so_that_a_pause_keeps_no_more_than_size() -> None:
    valve = Valve()
    items = range(100)
    probe = ProbeSubscriber[int](UNBOUNDED, on_item=lambda item: valve.pause() if item == 20 else None)
    drawn: list[int] = []
    pausable(do_on_next(from_iterable(items), drawn.append), valve, size=8).subscribe(probe)

    assert probe.items == list(range(21))
    assert len(drawn) - len(probe.items) <= 8
    probe.on_item = None
    valve.resume()

    assert probe.items == list(items)
    assert probe.completed


def test_demand_beyond_size_goes_up_in_batches_and_any_other_at_once() -> None:
    source, probe = subscribed(Valve(), 4, size=8)
    probe.request(3)
    probe.request(10)
    assert source.requests == [4, 3]

    source.next(*range(5))
    assert source.requests == [4, 3, 6]
    source.next(*range(5, 13))
    assert source.requests == [4, 3, 6, 4]
    source.next(*range(13, 17))

    assert source.outstanding == 0
    assert source.requested == 17


def test_the_source_is_suspended_and_resumed() -> None:
    valve = Valve()
    source, _ = subscribed(valve, 3)

    for call in (valve.pause, valve.pause, valve.resume, valve.resume):
        call()

    assert source.told == ["suspend", "resume"]


def test_what_is_between_passes_it_on() -> None:
    valve = Valve()
    source = Suspendable()
    pausable(map_(source, str), valve).subscribe(ProbeSubscriber[str](1))

    valve.pause()
    valve.resume()

    assert source.told == ["suspend", "resume"]


def test_two_valves_are_open_only_together() -> None:
    one, other = Valve(), Valve()
    source, probe = Suspendable(), ProbeSubscriber[int](UNBOUNDED)
    pausable(pausable(source, one), other).subscribe(probe)

    one.pause()
    other.pause()
    source.next(1)
    one.resume()
    assert "resume" not in source.told, "the other is still shut"
    source.next(2)
    assert probe.items == []
    other.resume()
    assert source.told[-1] == "resume"
    assert probe.items == [1, 2]

    source.told.clear()
    other.pause()
    one.pause()
    other.resume()
    assert "resume" not in source.told
    one.resume()
    assert source.told[-1] == "resume"


def test_one_valve_pauses_many_streams_and_those_subscribed_during_the_pause() -> None:
    valve = Valve()
    streams = [subscribed(valve, 2)]
    valve.pause()
    streams.append(subscribed(valve, 2))
    assert streams[1][0].requests == []

    valve.resume()
    for source, probe in streams:
        assert source.requests == [2]
        source.next(1)
        assert probe.items == [1]


def test_completion_comes_behind_what_is_kept() -> None:
    valve = Valve()
    source, probe = subscribed(valve, 3)
    valve.pause()
    source.next(1, 2)

    source.complete()
    assert not probe.ended
    valve.resume()

    assert probe.signals == ["on_subscribe", "on_next", "on_next", "on_complete"]
    assert source.told == ["suspend"], "what has ended is left alone"


def test_completion_with_nothing_kept_does_not_wait() -> None:
    valve = Valve()
    source, probe = subscribed(valve, 3)
    valve.pause()

    source.complete()

    assert probe.completed


def test_what_is_kept_is_given_back_on_a_cancel() -> None:
    valve = Valve()
    source, probe = subscribed(valve, 3)
    valve.pause()
    source.next(1, 2)

    probe.cancel()

    assert source.outcomes == ["released", "released"]
    valve.resume()
    assert probe.items == []
    assert source.told == ["suspend"]


def test_an_error_waits_for_what_is_kept_during_a_pause() -> None:
    valve, error = Valve(), ValueError()
    source, probe = subscribed(valve, 3)
    valve.pause()
    source.next(1, 2)
    source.error(error)
    assert not probe.ended

    valve.resume()

    assert probe.items == [1, 2]
    assert probe.error is error
    assert source.outcomes == ["done", "done"]


@pytest.mark.parametrize("end", ["complete", "complete later", "error", "cancel", "raise", "raise later", "never"])
def test_a_stream_that_has_ended_is_forgotten_by_its_valve(end: str) -> None:
    valve = Valve()
    source, probe = subscribed(valve, 3)
    match end:
        case "complete":
            source.complete()
        case "complete later":
            valve.pause()
            source.next(1)
            source.complete()
            valve.resume()
        case "error":
            source.error(ValueError())
        case "cancel":
            probe.cancel()
        case "raise":
            probe.on_item = lambda item: item // 0
            with pytest.raises(ZeroDivisionError):
                source.next(1)
        case "raise later":
            probe.on_item = lambda item: item // 0
            valve.pause()
            source.next(1)
            with pytest.raises(ZeroDivisionError):
                valve.resume()
        case "never":
            probe.cancel()
            pausable(fail(ValueError()), valve).subscribe(ProbeSubscriber[int](1))

    assert not valve._stages


def test_a_subscriber_may_pause_and_resume_from_inside_on_next() -> None:
    valve = Valve()
    source, probe = subscribed(valve, UNBOUNDED)
    probe.on_item = lambda _: valve.pause()
    source.next(1, 2, 3)
    assert probe.items == [1]

    valve.resume()
    assert probe.items == [1, 2], "paused again by the second"
    assert source.told[-1] == "suspend"

    def again(_item: int) -> None:
        valve.pause()
        valve.resume()

    probe.on_item = again
    valve.resume()
    source.next(4)

    assert probe.items == [1, 2, 3, 4]
    assert source.told[-1] == "resume"


def test_a_pause_during_a_resume_holds_for_all() -> None:
    valve = Valve()
    first, pausing = subscribed(valve, 2)
    second, probe = subscribed(valve, 2)
    pausing.on_item = lambda _: valve.pause()
    valve.pause()
    first.next(1, 2)
    second.next(1, 2)

    valve.resume()

    assert pausing.items == [1]
    assert probe.items == []
    assert valve.paused


def test_a_subscriber_that_raises_leaves_no_other_stream_shut() -> None:
    valve = Valve()
    streams = [subscribed(valve, 2) for _ in range(3)]
    valve.pause()
    for source, _ in streams:
        source.next(1)
    error = ArithmeticError("by the subscriber")

    def raises(_item: int) -> None:
        raise error

    streams[0][1].on_item = raises
    with pytest.raises(ArithmeticError) as caught:
        valve.resume()

    assert caught.value is error
    assert [source.outcomes for source, _ in streams] == [["failed"], ["done"], ["done"]]


def test_a_valve_is_not_turned_from_another_thread() -> None:
    valve = Valve()
    source, _ = subscribed(valve, 2)
    raised: list[BaseException] = []

    def turn() -> None:
        try:
            valve.pause()
        except SpecViolation as error:
            raised.append(error)

    thread = Thread(target=turn)
    thread.start()
    thread.join()

    assert "pause() was called in thread" in str(raised[0])
    assert not valve.paused
    assert source.told == []


def test_what_is_kept_is_counted() -> None:
    valve = Valve()
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](9)
    pausable(source, valve, size=5).subscribe(probe)
    source.next(1, 2)
    valve.pause()
    source.next(3, 4, 5)

    assert isinstance(probe.subscription, Scannable)
    assert probe.subscription.counts() == Counts(9, 2, 3)


class Turned:
    """A stream whose valve is turned at any time, also from inside `on_next`."""

    def __init__(self, size: int, turns: list[bool]) -> None:
        turning = cycle(turns)
        self.valve = Valve()
        self.size = size
        self.sent = self.requested = 0
        self.source = ManualPublisher[int]()
        self.probe = ProbeSubscriber[int](hold=True, on_item=lambda _: self.valve.pause() if next(turning) else None)
        pausable(self.source, self.valve, size=size).subscribe(self.probe)

    def pause(self, _: int) -> None:
        self.valve.pause()

    def resume(self, _: int) -> None:
        self.valve.resume()

    def request(self, n: int) -> None:
        self.requested += n
        self.probe.request(n)

    def send(self, n: int) -> None:
        for _ in range(min(n, self.source.outstanding)):
            self.source.next(self.sent)
            self.sent += 1

    def check(self) -> None:
        received = len(self.probe.items)
        assert self.probe.items == list(range(received))
        assert self.source.requested <= self.requested, "never ahead of demand"
        assert self.source.requested - received <= self.size, "what may be kept is bounded"
        if not self.valve.paused:
            assert received == self.sent
            assert self.source.outstanding > 0 or self.requested == self.sent, "demand is not forgotten"


@given(
    size=st.integers(1, 6),
    turns=st.lists(st.booleans(), min_size=1, max_size=5),
    actions=st.lists(
        st.tuples(st.sampled_from(["pause", "resume", "request", "send"]), st.integers(1, 5)), max_size=30
    ),
)
def test_a_valve_turned_at_any_time_loses_nothing(size: int, turns: list[bool], actions: list[tuple[str, int]]) -> None:
    stream = Turned(size, turns)
    for action, n in actions:
        getattr(stream, action)(n)
        stream.check()

    stream.source.complete()
    while not stream.probe.ended:
        stream.valve.resume()
    for hold in stream.probe.holds:
        hold.done()

    assert stream.probe.items == list(range(stream.sent))
    assert stream.source.outcomes == ["done"] * stream.sent
