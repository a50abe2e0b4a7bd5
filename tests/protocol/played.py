"""What the tests of the link wing share: a driver played by the test, and both ends of a link in one program."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from rstreams._core.claims import EACH_HOLD, NO_HOLD, Claims
from rstreams.abc import Hold, Subscriber
from rstreams.errors import ConnectionLost, RStreamsError
from rstreams.protocol.delivery import END, FailureStrategy, Outcome
from rstreams.protocol.frames import (
    Attach,
    Detach,
    Disposition,
    Flow,
    Frame,
    Lost,
    Role,
    Settlement,
    Transfer,
)
from rstreams.protocol.link import Link
from rstreams.protocol.options import ReceivingOptions, SendingOptions
from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.sender import LinkSubscriber
from rstreams.testing import ManualPublisher, ProbeSubscriber
from rstreams.testing.local_driver import LocalDriver

REFUSED_BY_SENDER = Attach("test", Role.SENDER, None, None)
REFUSED_BY_RECEIVER = Attach("test", Role.RECEIVER, None, None)
REJECTED = Outcome("rejected", "x:bad", "unreadable")
LOST = ConnectionLost("the connection broke")


def encode(item: object) -> bytes:
    """Items of these tests are integers."""
    if not isinstance(item, int):
        msg = f"{item!r} cannot be encoded"
        raise TypeError(msg)
    return b"%d" % item


def decode(payload: bytes) -> int:
    return int(payload)


def sending_options(
    settlement: Settlement,
    *,
    publish: bool,
    encode: Callable[[Any], bytes] = encode,
    expose_errors: bool = True,
    **more: Any,  # noqa: ANN401 - those of `SendingOptions`
) -> SendingOptions:
    """Return the options of the sending end that `publish` makes, or that of a served stream."""
    return SendingOptions(
        encode=encode,
        settlement=settlement,
        settle_before_detach=publish,
        fail_on_refusal=publish,
        expose_errors=expose_errors,
        **more,
    )


class PlayedDriver:
    """A driver played by the test: it records what is sent, has the numbers the test gives it, and works when told.

    Attributes:
        sent: Every frame, in order.
        wire: The credit on the wire; a flow sets it, a transfer uses it up.
        waiting: What `queued` answers.
        room: What `room_bytes` answers.
        looks: How many looks at the time find that the slice is not over, before one that does; None: all.
        awake: Whether `wake` was called since the last `turn`.
        for_item: Whether it was called the last time because of an item.
        idle: Whether `send_ahead` sends.
        calls: What is to be called, and after how many seconds.
    """

    def __init__(self) -> None:
        self.sent: list[Frame] = []
        self.wire = 0
        self.waiting = 0
        self.room = 1 << 20
        self.looks: int | None = None
        self.awake = False
        self.for_item = False
        self.idle = False
        self.calls: list[tuple[float, Callable[[], None]]] = []
        self.link: Link | None = None

    def send(self, frame: Frame) -> None:
        self.sent.append(frame)
        if isinstance(frame, Flow):
            self.wire = frame.credit
        elif isinstance(frame, Transfer):
            self.wire -= len(frame.deliveries)

    def send_ahead(self, tag: int, message: bytes, *, settled: bool) -> bool:
        if self.idle and self.wire > 1:
            self.send(Transfer([tag], [message], settled))
            return True
        return False

    def credit(self) -> int:
        return self.wire

    def queued(self) -> int:
        return self.waiting

    def room_bytes(self) -> int:
        return self.room

    def is_shut(self, *, used_up: bool = False) -> bool:  # noqa: ARG002 - a driver's
        return False

    def wake(self, *, for_item: bool = False) -> None:
        self.awake = True
        self.for_item = for_item

    def sent_at_s(self) -> float:
        return 0.0

    def now_s(self) -> float:
        return 0.0

    def slice_is_over(self) -> bool:
        over = self.looks == 0
        if self.looks is not None:
            self.looks = None if over else self.looks - 1
        return over

    def call_after(self, delay_s: float, function: Callable[[], None]) -> None:
        self.calls.append((delay_s, function))

    # the test calls these

    def turn(self) -> None:
        """Let the link work until it wants no more."""
        assert self.link is not None
        self.awake = True
        while self.awake:
            self.awake = False
            self.link.work()

    def receive(self, *frames: Frame) -> None:
        """Play the peer, then let the link work, as every driver does."""
        assert self.link is not None
        for frame in frames:
            if isinstance(frame, Transfer):
                self.wire -= len(frame.deliveries)
                frame.overdrawn = self.wire < 0
            self.link.receive(frame)
        self.turn()

    def lose(self, error: RStreamsError) -> None:
        assert self.link is not None
        self.link.lose(Lost(error))

    def take_sent(self) -> list[Frame]:
        """Return what was sent since the last time."""
        sent, self.sent = self.sent, []
        return sent


class PlayedReceiver:
    """A `LinkSubscription` whose subscriber is a probe and whose peer is the test."""

    def __init__(
        self,
        *,
        window: int = 8,
        request: int = 0,
        hold: bool = False,
        on_item: Callable[[int], object] | None = None,
        probe: ProbeSubscriber[int] | None = None,
        decode: Callable[[bytes], int] = decode,
        attached: bool = True,
        on_failure: FailureStrategy = END,
        window_bytes: int = 0,
    ) -> None:
        self.raised: list[BaseException] = []
        self.probe = probe or ProbeSubscriber[int](request, hold=hold, on_item=on_item)
        self.end = LinkSubscription(
            self.probe,
            ReceivingOptions(decode=decode, window=window, on_failure=on_failure, window_bytes=window_bytes),
            self.raised.append,
        )
        self.driver = PlayedDriver()
        self.link = self.end.bind("test", self.driver)
        self.driver.link = self.link
        self.numbers = iter(range(1000))
        self.link.send(Attach("test", Role.RECEIVER, "a", ""))
        if attached:
            self.attach()
            self.driver.sent.remove(Attach("test", Role.RECEIVER, "a", ""))

    def attach(self) -> None:
        self.driver.receive(Attach("test", Role.SENDER, "a", ""))

    def transfer(self, count: int, *, settled: bool = False) -> list[int]:
        """Play the sender: `count` deliveries, whose number is also the item."""
        numbers = [next(self.numbers) for _ in range(count)]
        self.driver.receive(Transfer(numbers, [encode(number) for number in numbers], settled))
        return numbers

    @property
    def outcomes(self) -> dict[Hashable, Outcome]:
        """The outcome of each delivery that has been settled; none is settled twice."""
        told: dict[Hashable, Outcome] = {}
        for frame in self.driver.sent:
            if isinstance(frame, Disposition):
                for delivery in frame.deliveries:
                    assert delivery not in told
                    told[delivery] = frame.outcome
        return told

    @property
    def detach(self) -> Detach | None:
        """The detach sent, if any; never more than one, and nothing behind it."""
        detaches = [frame for frame in self.driver.sent if isinstance(frame, Detach)]
        if not detaches:
            return None
        assert len(detaches) == 1
        assert self.driver.sent[-1] is detaches[0]
        return detaches[0]


class PlayedSender:
    """A `LinkSubscriber` whose publisher and whose peer are the test."""

    def __init__(
        self,
        *,
        settlement: Settlement = Settlement.AT_LEAST_ONCE,
        publish: bool = True,
        expose_errors: bool = False,
        publisher: Any = None,  # noqa: ANN401 - also what is no publisher
        attached: bool = True,
        resends: bool = False,
        encode: Callable[[Any], bytes] = encode,
        **bounds: Any,  # noqa: ANN401 - those of `LinkSubscriber`
    ) -> None:
        self.finished: list[BaseException | None] = []
        self.source = ManualPublisher[int]()
        self.end = LinkSubscriber(
            publisher or self.source,
            sending_options(
                settlement, publish=publish, encode=encode, expose_errors=expose_errors, resends=resends, **bounds
            ),
            self.finished.append,
        )
        self.driver = PlayedDriver()
        self.link = self.end.bind("test", self.driver)
        self.driver.link = self.link
        self.link.send(Attach("test", Role.SENDER, "", "a"))
        if attached:
            self.attach()
            self.driver.take_sent()

    def attach(self) -> None:
        self.driver.receive(Attach("test", Role.RECEIVER, "", "a"))

    def grant(self, credit: int, *, drain: bool = False) -> None:
        """Play the receiver: there is `credit` now."""
        self.driver.wire = credit
        self.driver.receive(Flow(credit, drain))

    def hold_first(self, hold: Hold) -> None:
        """Have `hold` in the place of the claim on the delivery that was sent first, which is a run by itself."""
        runs = self.end._deliveries.unsettled._runs
        tags, payloads, sizes, _ = runs.popleft()
        runs.appendleft((tags, payloads, sizes, Claims(EACH_HOLD, 0, (hold,))))

    def settle(self, outcome: Outcome, *tags: int) -> None:
        self.driver.receive(Disposition(tags, outcome))

    @property
    def transferred(self) -> list[int]:
        """The items sent, in order."""
        frames = [frame for frame in self.driver.sent if isinstance(frame, Transfer)]
        return [decode(payload) for frame in frames for payload in frame.payloads]

    @property
    def detach(self) -> Detach | None:
        """The detach sent, if any; never more than one, and nothing behind it."""
        detaches = [frame for frame in self.driver.sent if isinstance(frame, Detach)]
        if not detaches:
            return None
        assert len(detaches) == 1
        assert self.driver.sent[-1] is detaches[0]
        return detaches[0]


class LocalPair:
    """Both ends of one link over the local driver: the source is played by the test, the subscriber a probe."""

    def __init__(
        self,
        *,
        window: int = 8,
        probe: ProbeSubscriber[int] | None = None,
        settlement: Settlement = Settlement.AT_LEAST_ONCE,
        publish: bool = False,
    ) -> None:
        self.raised: list[BaseException] = []
        self.finished: list[BaseException | None] = []
        self.probe = probe or ProbeSubscriber[int]()
        self.source = ManualPublisher[int]()
        self.receiver = LinkSubscription(self.probe, ReceivingOptions(decode=decode, window=window), self.raised.append)
        self.sender = LinkSubscriber(
            self.source,
            sending_options(settlement, publish=publish),
            self.finished.append,
        )
        self.receiving, self.sending = LocalDriver.pair()
        self.receiving_link = self.receiver.bind("local", self.receiving)
        self.sending_link = self.sender.bind("local", self.sending)
        self.receiving.bind(self.receiving_link)
        self.sending.bind(self.sending_link)
        if publish:
            self.sending_link.send(Attach("local", Role.SENDER, "", "a", settlement))
            self.receiving_link.send(Attach("local", Role.RECEIVER, "", "a", settlement))
            self.receiver.start()
        else:
            self.receiving_link.send(Attach("local", Role.RECEIVER, "a", "", settlement))
            self.sending_link.send(Attach("local", Role.SENDER, "a", "", settlement))
            self.sender.start()

    @staticmethod
    def unattached(probe: ProbeSubscriber[int]) -> tuple[LocalDriver, LocalDriver]:
        """Return the drivers of a receiving end that has attached, and of a sending end that has no link yet."""
        receiver = LinkSubscription(probe, ReceivingOptions(decode=decode, window=8), never)
        receiving, sending = LocalDriver.pair()
        link = receiver.bind("local", receiving)
        receiving.bind(link)
        link.send(Attach("local", Role.RECEIVER, "a", ""))
        return receiving, sending


class Source:
    """A publisher that sends what it likes, from inside `request`."""

    def __init__(self, answer: Callable[[Source, int], None]) -> None:
        self.answer = answer
        self.requests: list[int] = []
        self.cancels = 0
        self.held = NO_HOLD
        self.comes_later = False

    def subscribe(self, subscriber: Subscriber[int]) -> None:
        self.subscriber = subscriber
        subscriber.on_subscribe(self)

    def request(self, n: int) -> None:
        self.requests.append(n)
        self.answer(self, n)

    def cancel(self) -> None:
        self.cancels += 1

    def hold(self) -> Hold:
        return self.held


def counting(source: Source, n: int) -> None:
    for _ in range(n):
        source.subscriber.on_next(1)


def never(error: BaseException) -> None:
    """An `on_raised` for subscribers that never raise."""
    raise AssertionError(error)
