"""One script, two drivers: over the local one and over the engine, publisher and subscriber see the same.

The engine has the script twice: in the second one, items are sent inside of the publisher's signal where that can be.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Hold
from rstreams.errors import BufferOverflow, ConnectionLost, DeliveryFailed, PublisherFailed, RStreamsError
from rstreams.net._proton import LinkDriver
from rstreams.net.transport.pump import RUN
from rstreams.protocol.driver import Driver
from rstreams.protocol.frames import Attach, Flow, Lost, Role, Settlement
from rstreams.protocol.link import Link
from rstreams.protocol.options import ReceivingOptions, SendingOptions
from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.sender import LinkSubscriber
from rstreams.testing import ManualPublisher, ProbeSubscriber
from rstreams.testing.local_driver import LocalDriver
from tests.net.engines import Engines
from tests.protocol.played import decode, sending_options


class World(Protocol):
    """What carries the link."""

    def attach(self, opener: Any, answerer: Any, first: Attach, second: Attach) -> dict[Any, Driver]:  # noqa: ANN401
        """Attach `opener` with `first`; have `answerer` reply with `second`."""
        ...

    def run(self) -> None: ...
    def cut(self, error: RStreamsError) -> None: ...
    def close(self) -> None: ...


class SlowDriver(LocalDriver):
    """A local driver that takes its turns when told, like a pump."""

    def _run(self) -> None:
        pass

    def run(self) -> None:
        while self._turns:
            self._turns.popleft()()


class LocalWorld:
    def __init__(self) -> None:
        self.one, self.other = SlowDriver.pair()

    def attach(self, opener: Any, answerer: Any, first: Attach, second: Attach) -> dict[Any, Driver]:  # noqa: ANN401
        links: list[Link] = []
        for driver, end in ((self.one, opener), (self.other, answerer)):
            links.append(end.bind("link", driver))
            driver.bind(links[-1])
        links[0].send(first)
        self.run()
        links[1].send(second)
        answerer.start()
        self.run()
        return {opener: self.one, answerer: self.other}

    def run(self) -> None:
        self.one.run()

    def cut(self, error: RStreamsError) -> None:
        self.one.cut(error)
        self.run()

    def close(self) -> None:
        pass


class EngineWorld:
    def __init__(self, *, go_ahead: bool = False) -> None:
        self.engines = Engines(go_ahead=go_ahead)

    def attach(self, opener: Any, answerer: Any, first: Attach, second: Attach) -> dict[Any, Driver]:  # noqa: ANN401
        drivers: dict[Any, Driver] = {}

        def answer(driver: LinkDriver, frame: Attach) -> None:
            assert (frame.role, frame.source, frame.target, frame.settlement) == (
                first.role,
                first.source,
                first.target,
                first.settlement,
            )
            drivers[answerer] = driver
            link = answerer.bind(frame.name, driver)
            driver.bind(link)
            link.receive(frame)
            link.send(second)
            answerer.start()

        self.engines.other.answer = answer
        drivers[opener] = self.engines.one.attach(opener, first)
        self.run()
        return drivers

    def run(self) -> None:
        self.engines.run()

    def cut(self, error: RStreamsError) -> None:
        for side in (self.engines.one, self.engines.other):
            side.engine.links.lose(error)

    def close(self) -> None:
        self.cut(ConnectionLost("the end"))
        self.engines.free()


class Subscription:
    """One link with a played publisher and a probe, and what the two have seen."""

    def __init__(self, world: World, *, window: int, publish: bool, settlement: Settlement, first: int) -> None:
        self.world = world
        self.published = 0
        self.finished: list[BaseException | None] = []
        self.told: list[BaseException] = []
        self.drained: list[int] = []
        self.source = ManualPublisher[int]()
        self.probe = ProbeSubscriber[int](first)
        self.held: list[Hold] = []
        self.receiver = LinkSubscription(self.probe, ReceivingOptions(decode=decode, window=window), self.told.append)
        self.sender = LinkSubscriber(
            self.source,
            sending_options(settlement, publish=publish),
            self.finished.append,
        )
        receiving = Attach("link", Role.RECEIVER, "address", "", settlement)
        sending = Attach("link", Role.SENDER, "address", "", settlement)
        if publish:
            drivers = world.attach(self.sender, self.receiver, sending, receiving)
        else:
            drivers = world.attach(self.receiver, self.sender, receiving, sending)
        self.receiving, self.sending = drivers[self.receiver], drivers[self.sender]

    # what a script is made of

    def request(self, n: int) -> None:
        self.probe.request(n)

    def send(self, most: int) -> None:
        if self.source.cancelled or self.sender._publisher.completed:
            return
        for _ in range(min(most, self.source.outstanding)):
            self.published += 1
            self.source.next(self.published)

    def plan(self, plan: str) -> None:
        subscription = self.receiver

        def act(item: int) -> None:
            match plan:
                case "hold":
                    self.held.append(subscription.hold())
                case "reject":
                    subscription.hold().fail(DeliveryFailed("rejected", "x:bad", f"item {item}"))
                case "request":
                    subscription.request(1)
                case "cancel":
                    subscription.cancel()
                case "raise":
                    raise KeyError(item)

        self.probe.on_item = None if plan == "take" else act

    def settle(self, at: int, outcome: str) -> None:
        if not self.held:
            return
        hold = self.held.pop(at % len(self.held))
        if outcome == "fail":
            hold.fail(ValueError("no"))
        else:
            getattr(hold, outcome)()

    def drain(self) -> None:
        self.receiver.drain(lambda: self.drained.append(len(self.probe.items)))

    def suspend(self) -> None:
        self.receiver.suspend()

    def resume(self) -> None:
        self.receiver.resume()

    def cancel(self) -> None:
        self.probe.cancel()

    def complete(self) -> None:
        if not self.sender._publisher.completed:
            self.source.complete()

    def error(self, error: BaseException) -> None:
        if not self.sender._publisher.completed:
            self.source.error(error)

    def lose(self) -> None:
        self.world.cut(ConnectionLost("cut"))

    # what is compared

    def seen(self) -> dict[str, Any]:
        """Return all that publisher and subscriber have seen, and what the ledgers hold."""
        receiver, sender = self.receiver.ledger, self.sender.ledger
        return {
            "signals": list(self.probe.signals),
            "items": list(self.probe.items),
            "error": shown(self.probe.error),
            "drained": list(self.drained),
            "raised": [type(error) for error in self.told],
            "requested": self.source.requested,
            "cancelled": self.source.cancelled,
            "outcomes": list(self.source.outcomes),
            "failures": [shown(error) for error in self.source.errors],
            "finished": [shown(error) for error in self.finished],
            "accepted": self.sender.accepted,
            "unknown": self.sender.outcome_unknown,
            "receiver": (receiver.demand, receiver.buffered, receiver.unsettled),
            "sender": (sender.owed, sender.held),
            "states": (self.receiver.state, self.sender.state),
        }


def shown(error: BaseException | None) -> object:
    return error and (type(error), str(error), getattr(error, "info", None), getattr(error, "outcome_unknown", None))


STEPS = st.one_of(
    st.tuples(st.just("request"), st.one_of(st.integers(1, 12), st.just(UNBOUNDED))),
    st.tuples(st.just("send"), st.integers(1, 12)),
    st.tuples(st.just("send"), st.integers(1, 12)),
    st.tuples(st.just("plan"), st.sampled_from(["take", "hold", "hold", "reject", "request", "cancel", "raise"])),
    st.tuples(st.just("settle"), st.integers(0, 5), st.sampled_from(["done", "fail", "release"])),
    st.tuples(st.just("settle"), st.integers(0, 5), st.sampled_from(["done", "fail", "release"])),
    st.tuples(st.just("drain")),
    st.tuples(st.just("suspend")),
    st.tuples(st.just("resume")),
)
ENDS = st.one_of(
    st.tuples(st.just("cancel")),
    st.tuples(st.just("complete")),
    st.tuples(st.just("lose")),
    st.tuples(st.just("request"), st.just(0)),
    st.tuples(
        st.just("error"),
        st.sampled_from([ValueError("x"), BufferOverflow("full"), PublisherFailed("a:b", "c", {"d": 1, "e": "f"})]),
    ),
)


@pytest.mark.slow
@settings(max_examples=150)
@given(
    window=st.integers(1, 24),
    publish=st.booleans(),
    settlement=st.sampled_from(Settlement),
    first=st.integers(0, 8),
    before=st.lists(STEPS, max_size=20),
    end=ENDS,
    after=st.lists(STEPS, max_size=6),
)
@example(  # the same credit is granted again
    window=1,
    publish=False,
    settlement=Settlement.AT_MOST_ONCE,
    first=0,
    before=[("request", UNBOUNDED), ("send", 1)],
    end=("cancel",),
    after=[],
)
def test_the_same_script_over_both_drivers(  # noqa: PLR0917
    window: int,
    publish: bool,  # noqa: FBT001
    settlement: Settlement,
    first: int,
    before: list[tuple[Any, ...]],
    end: tuple[Any, ...],
    after: list[tuple[Any, ...]],
) -> None:
    worlds: list[World] = [LocalWorld(), EngineWorld(), EngineWorld(go_ahead=True)]
    try:
        local, *engines = (
            Subscription(world, window=window, publish=publish, settlement=settlement, first=first) for world in worlds
        )
        for name, *arguments in [*before, end, *after]:
            for subscription in (local, *engines):
                getattr(subscription, name)(*arguments)
                subscription.world.run()
            for engine in engines:
                assert local.seen() == engine.seen(), f"after {name}{tuple(arguments)}"
                the_ledger_agrees_with_the_engine(local, engine)
        event(f"ended by {end[0]}")
        event(f"items: {min(local.published, 10)}")
    finally:
        for world in worlds:
            world.close()


def the_ledger_agrees_with_the_engine(local: Subscription, engine: Subscription) -> None:
    alive = engine.receiver.state.name == engine.sender.state.name == "ATTACHED"
    if not alive:
        return
    credit = engine.receiving.credit()
    ledger = engine.receiver.ledger
    assert credit == engine.sending.credit() == local.receiving.credit() == local.sending.credit()
    assert credit >= 0
    if engine.receiver.ledger.suspended:
        assert credit == 0, "withdrawn"
    if not engine.receiver.ended:
        assert credit <= max(0, min(ledger.demand, ledger.window - ledger.unsettled) - ledger.buffered), "law 2"


# and what only the engine can get wrong


class Links:
    """A link over engines, for a closer look."""

    def __init__(self, *, max_frame_bytes: int = 65536, window: int = 64) -> None:
        self.engines = Engines(max_frame_bytes=max_frame_bytes)
        self.probe = ProbeSubscriber[Any]()
        self.source = ManualPublisher[bytes]()
        self.finished: list[BaseException | None] = []
        self.receiver = LinkSubscription(
            self.probe, ReceivingOptions(decode=bytes, window=window), self.finished.append
        )
        self.sender = LinkSubscriber(
            self.source, SendingOptions(encode=bytes, expose_errors=True), self.finished.append
        )
        world = EngineWorld.__new__(EngineWorld)
        world.engines = self.engines
        world.attach(self.receiver, self.sender, Attach("l", Role.RECEIVER, "a", ""), Attach("l", Role.SENDER, "a", ""))

    def close(self) -> None:
        for side in (self.engines.one, self.engines.other):
            side.engine.links.lose(ConnectionLost("the end"))
        self.engines.free()


@pytest.fixture
def links() -> Any:  # noqa: ANN401
    made: list[Links] = []

    def make(**options: Any) -> Links:  # noqa: ANN401
        made.append(Links(**options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("size", [0, 1, 254, 255, 4095, 4096, 4097, 65536, 1_000_000, 10_000_000])
def test_a_message_of_any_size_arrives_whole(links: Callable[..., Links], size: int) -> None:
    link = links()
    payload = bytes(range(256)) * (size // 256) + bytes(range(size % 256))
    link.probe.request(3)
    link.engines.run()
    link.source.next(payload, b"small", payload)
    link.engines.run()
    assert link.probe.items == [payload, b"small", payload]
    assert link.source.outcomes == ["done"] * 3


def test_messages_of_all_sizes_in_small_frames(links: Callable[..., Links]) -> None:
    link = links(max_frame_bytes=512)
    payloads = [bytes([size % 251]) * size for size in range(0, 6000, 97)]
    link.probe.request(len(payloads))
    for payload in payloads:
        link.engines.run()
        link.source.next(payload)
    link.engines.run()
    assert link.probe.items == payloads


def test_what_came_before_a_detach_is_handed_over_before_it(links: Callable[..., Links]) -> None:
    link = links(window=5000)
    link.probe.request(5000)
    link.engines.run()
    while link.source.outstanding:
        link.source.next(*[b"x"] * link.source.outstanding)
        for data in iter(link.engines.other.output, b""):
            link.engines.one.engine.feed(data)
        link.engines.other.engine.dispatch(RUN, math.inf)
    link.source.complete()
    assert link.probe.items == []
    link.engines.run()
    assert len(link.probe.items) == 5000
    assert link.probe.signals[-1] == "on_complete"


def test_what_comes_after_the_end_is_dropped(links: Callable[..., Links]) -> None:
    link = links()
    (driver,) = link.engines.one.engine.links._drivers.values()
    link.engines.one.engine.links.lose(ConnectionLost("gone"))
    driver.receive(Flow(5))
    driver.receive(Attach("l", Role.SENDER, "a", ""))
    assert link.probe.signals == ["on_subscribe", "on_error"]
    assert isinstance(link.probe.error, ConnectionLost)


def test_a_lost_link_leaves_nothing_behind_in_the_engine(links: Callable[..., Links]) -> None:
    link = links()
    engines = link.engines
    link.probe.request(10)
    engines.run()
    link.source.next(b"1", b"2")
    engines.run()
    link.probe.cancel()
    engines.run()
    for side in (engines.one, engines.other):
        assert side.engine.links.alive == []
        assert not side.engine.turns.noted
        assert not side.engine.turns.dirty
        assert not side.engine.turns.waiting
        assert not side.engine.turns.ended


def test_a_peer_that_breaks_the_protocol_loses_its_link_and_no_other(links: Callable[..., Links]) -> None:
    """A link heard twice of: the driver detaches it with the condition, and the endpoint hears that it is lost."""
    link = links()
    driver = next(iter(link.engines.one.engine.links._drivers.values()))
    driver.receive(Attach("l", Role.SENDER, "a", ""))
    link.engines.run()
    assert link.probe.signals == ["on_subscribe", "on_error"]
    assert "ILLEGAL" in str(link.probe.error).upper()
    (error,) = link.finished
    assert "illegal-state" in str(error)
    assert link.engines.one.engine.links.alive == link.engines.other.engine.links.alive == []


def test_lost_is_told_once(links: Callable[..., Links]) -> None:
    link = links()
    lost = ConnectionLost("gone")
    link.engines.one.engine.links.lose(lost)
    link.engines.one.engine.links.lose(ConnectionLost("again"))
    assert repr(link.probe.error) == repr(lost)
    assert link.receiver._link is not None
    link.receiver._link.lose(Lost(ConnectionLost("a third time")))
    assert link.probe.signals == ["on_subscribe", "on_error"]
