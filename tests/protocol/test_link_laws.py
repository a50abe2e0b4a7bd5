"""Laws 1 to 5 of the design over both ends of a link, whatever publisher, subscriber and network do, in whatever order.

The two ends are carried by the local driver, one turn at a time, so that frames of both sides cross each other.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Hold, Subscription
from rstreams.errors import BufferOverflow, ConnectionLost, DeliveryFailed, RStreamsError
from rstreams.protocol.frames import Attach, Detach, Disposition, Flow, Frame, Role, Settlement, Transfer
from rstreams.protocol.options import ReceivingOptions
from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.sender import LinkSubscriber
from rstreams.protocol.states import State
from rstreams.testing import ManualPublisher
from rstreams.testing.local_driver import LocalDriver
from tests.protocol.played import decode, sending_options

OUTCOMES = {"done": "accepted", "fail": "modified", "release": "released", "reject": "rejected"}


class SteppedDriver(LocalDriver):
    """A local driver whose turns are taken one by one by the test, and which writes down what it carries."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.sent: list[Frame] = []

    def send(self, frame: Frame) -> None:
        if isinstance(frame, Transfer):
            assert len(frame.deliveries) <= self.credit(), "law 3: nothing is sent beyond credit"
        if isinstance(frame, Flow) and self._role is Role.RECEIVER:
            assert 0 <= frame.credit <= 2**31 - 1, "law 1"
        assert not any(isinstance(before, Detach) for before in self.sent), "a detach is the last word"
        self.sent.append(frame)
        super().send(frame)

    def _run(self) -> None:
        """Leave the turns to the test."""

    def step(self) -> bool:
        """Take one turn; tell whether there was one."""
        if not self._turns:
            return False
        self._turns.popleft()()
        return True


class Subscriber:
    """Counts its demand, checks every signal against the laws, and does with each item what the test has decided."""

    def __init__(self, laws: LinkLaws) -> None:
        self.laws = laws
        self.demand = 0
        self.subscription: Subscription | None = None
        self.items: list[int] = []
        self.held: dict[int, Hold] = {}
        self.expected: dict[int, str] = {}
        self.ended: str | None = None
        self.error: BaseException | None = None
        self.cancelled = False
        self.raised = False
        self.in_signal = False
        self.plan: Callable[[int], None] = self.take

    def _heard(self, signal: str) -> None:
        assert self.ended is None, f"law 4: {signal} after {self.ended}"
        assert not self.cancelled, f"law 4: {signal} after cancel"
        assert not self.raised, f"{signal} to a subscriber that raised"

    def take(self, item: int) -> None:
        self.expected[item] = "accepted"

    def on_subscribe(self, subscription: Subscription) -> None:
        assert self.subscription is None
        self._heard("on_subscribe")
        self.subscription = subscription

    def on_next(self, item: int) -> None:
        self._heard("on_next")
        assert not self.in_signal, "1.3: signals are serial"
        assert self.demand > 0, "law 1: nothing comes that was not asked for"
        self.demand -= 1
        assert not self.items or item > self.items[-1], "in order, none twice"
        self.items.append(item)
        self.in_signal = True
        try:
            self.plan(item)
        finally:
            self.in_signal = False

    def on_error(self, error: BaseException) -> None:
        self._heard("on_error")
        self.ended = "on_error"
        self.error = error

    def on_complete(self) -> None:
        self._heard("on_complete")
        self.ended = "on_complete"


class Source(ManualPublisher[int]):
    """A publisher that lets itself be suspended."""

    suspended = False

    def suspend(self) -> None:
        assert not self.suspended
        self.suspended = True

    def resume(self) -> None:
        assert self.suspended
        self.suspended = False


class LinkLaws(RuleBasedStateMachine):
    """A link between a publisher and a subscriber that do what the rules draw."""

    @initialize(
        window=st.one_of(st.integers(1, 6), st.just(256)),
        publish=st.booleans(),
        settlement=st.sampled_from(Settlement),
    )
    def attach(self, window: int, publish: bool, settlement: Settlement) -> None:  # noqa: FBT001
        self.published = 0
        self.told: list[BaseException] = []
        self.finished: list[BaseException | None] = []
        self.cut: RStreamsError | None = None
        self.source_ended = False
        self.aborted = False
        self.settlement = settlement
        self.publish = publish
        self.source = Source()
        self.subscriber = Subscriber(self)
        self.receiver = LinkSubscription(
            self.subscriber, ReceivingOptions(decode=decode, window=window), self.told.append
        )
        self.sender = LinkSubscriber(
            self.source,
            sending_options(settlement, publish=publish),
            self.finished.append,
        )
        self.receiving, self.sending = SteppedDriver.pair()
        self.receiving_link = self.receiver.bind("link", self.receiving)
        self.sending_link = self.sender.bind("link", self.sending)
        self.receiving.bind(self.receiving_link)
        self.sending.bind(self.sending_link)
        opener, answerer = (self.sender, self.receiver) if publish else (self.receiver, self.sender)
        role = Role.SENDER if publish else Role.RECEIVER
        links = {self.sender: self.sending_link, self.receiver: self.receiving_link}
        links[opener].send(Attach("link", role, "a", "b", settlement))
        self.steps()
        links[answerer].send(Attach("link", Role.RECEIVER if publish else Role.SENDER, "a", "b", settlement))
        answerer.start()

    def steps(self, most: int = 10_000) -> None:
        while most and self.receiving.step():
            most -= 1

    # the network

    @rule(most=st.integers(1, 6))
    def network(self, most: int) -> None:
        self.steps(most)

    @rule()
    def settle_down(self) -> None:
        self.steps()

    @precondition(lambda self: self.cut is None)
    @rule(often=st.integers(0, 9))
    def lose(self, often: int) -> None:
        if often == 0:  # rarely: after it, little can happen
            self.cut = ConnectionLost("cut")
            self.receiving.cut(self.cut)

    # the subscriber

    @precondition(lambda self: self.subscriber.subscription)
    @rule(n=st.one_of(st.integers(1, 12), st.just(UNBOUNDED)))
    def request(self, n: int) -> None:
        assert self.subscriber.subscription is not None
        self.subscriber.demand = min(self.subscriber.demand + n, UNBOUNDED)
        self.subscriber.subscription.request(n)

    @rule(
        plan=st.sampled_from(
            ["take", "hold", "hold twice", "settle at once", "request", "cancel", "raise", "bad request"]
        ),
        outcome=st.sampled_from(sorted(OUTCOMES)),
    )
    def plan(self, plan: str, outcome: str) -> None:
        subscriber = self.subscriber

        def act(item: int) -> None:
            subscription = subscriber.subscription
            assert subscription is not None
            subscriber.expected[item] = "accepted"
            match plan:
                case "hold":
                    subscriber.held[item] = subscription.hold()
                case "hold twice":
                    subscriber.held[item] = subscription.hold()
                    subscription.hold().done()
                case "settle at once":
                    self.end_hold(item, subscription.hold(), outcome)
                case "request":
                    subscriber.demand = min(subscriber.demand + 1, UNBOUNDED)
                    subscription.request(1)
                case "cancel":
                    subscriber.cancelled = True
                    subscription.cancel()
                case "raise":
                    subscriber.raised = True
                    subscriber.expected[item] = "modified"
                    raise KeyError(item)
                case "bad request":
                    subscription.request(0)

        subscriber.plan = act

    @precondition(lambda self: self.subscriber.held)
    @rule(data=st.data(), outcomes=st.lists(st.sampled_from(sorted(OUTCOMES)), min_size=1, max_size=6))
    def end_holds(self, data: st.DataObject, outcomes: list[str]) -> None:
        held = self.subscriber.held
        for outcome in outcomes:
            if held:
                item = data.draw(st.sampled_from(sorted(held)))
                self.end_hold(item, held.pop(item), outcome)

    def end_hold(self, item: int, hold: Hold, outcome: str) -> None:
        self.subscriber.expected[item] = OUTCOMES[outcome]
        match outcome:
            case "done":
                hold.done()
            case "release":
                hold.release()
            case "fail":
                hold.fail(ValueError("no"))
            case "reject":
                hold.fail(DeliveryFailed("rejected", "x:bad", "unreadable"))

    @precondition(lambda self: self.subscriber.subscription)
    @rule()
    def drain(self) -> None:
        def drained() -> None:
            subscriber = self.subscriber
            assert subscriber.ended is None, "law 4"
            assert not subscriber.cancelled, "law 4"
            assert not subscriber.raised, "law 4"
            assert self.receiving.credit() <= 0, "law 3: the credit is used or given back"
            assert self.receiver.ledger.buffered == 0, "all that came has been handed over"

        self.receiver.drain(drained)

    @precondition(lambda self: self.subscriber.subscription)
    @rule(pause=st.booleans())
    def pause_or_resume(self, *, pause: bool) -> None:
        if pause:
            self.receiver.suspend()
        else:
            self.receiver.resume()

    @precondition(lambda self: self.subscriber.subscription)
    @rule(often=st.integers(0, 9))
    def cancel(self, often: int) -> None:
        if often == 0:
            assert self.subscriber.subscription is not None
            self.subscriber.cancelled = True
            self.subscriber.subscription.cancel()

    # the publisher

    @rule(most=st.integers(1, 12))
    def send(self, most: int) -> None:
        if self.source_ended or self.source.subscriptions == 0 or self.source.suspended:
            return
        for _ in range(min(most, self.source.outstanding)):
            self.published += 1
            self.source.next(self.published)

    @rule(often=st.integers(0, 6), error=st.sampled_from([None, ValueError("x"), BufferOverflow("full")]))
    def end(self, often: int, error: BaseException | None) -> None:
        if often == 0 and not self.source_ended and self.source.subscriptions:
            self.source_ended = True
            if error is None:
                self.source.complete()
            else:
                self.source.error(error)

    @precondition(lambda self: self.publish)
    @rule(often=st.integers(0, 14))
    def abort(self, often: int) -> None:
        if often == 0:
            self.aborted = True
            self.sender.abort()

    # the laws, after every step

    @property
    def started(self) -> bool:
        return hasattr(self, "source")

    @invariant()
    def laws_1_and_2_the_receiver(self) -> None:
        if not self.started:
            return
        ledger = self.receiver.ledger
        credit = max(self.receiving.credit(), 0)
        assert ledger.buffered >= 0
        assert ledger.unsettled >= 0
        assert ledger.buffered + ledger.unsettled + credit <= ledger.window
        if not (self.subscriber.cancelled or self.subscriber.raised or self.subscriber.ended):
            assert credit + ledger.buffered <= ledger.demand
            assert ledger.demand in (self.subscriber.demand, UNBOUNDED)

    @invariant()
    def law_3_the_sender(self) -> None:
        if not self.started:
            return
        sender, ledger = self.sender, self.sender.ledger
        # Withdrawn while it was being given back, the credit is below none (2.6.7 counts it so): as good as none.
        assert self.sending.credit() >= 0 or self.receiver.ended
        assert len(sender._items.payloads) == len(sender._items.holds)
        assert ledger.owed + ledger.held <= self.receiver.ledger.window, "never more than was once granted"
        if not sender._publisher.completed:
            told = len(sender._items.payloads) - ledger.held  # what the ledger will be told with the next run
            assert ledger.owed - told == self.source.outstanding

    @invariant()
    def law_4_terminal_once(self) -> None:
        if self.started:
            assert len(self.finished) <= 1
            assert len(self.told) <= 1

    @invariant()
    def law_5_a_receiver_detaches_when_it_holds_nothing(self) -> None:
        if not self.started:
            return
        if any(isinstance(frame, Detach) for frame in self.receiving.sent):
            assert self.receiver.ledger.unsettled == 0
        if self.publish and not self.finished:
            detached = any(isinstance(frame, Detach) for frame in self.sending.sent)
            aborted = not self.sender._awaits_outcomes
            assert not detached or aborted or self.sender.unsettled == 0

    # and at the end

    def teardown(self) -> None:
        if not self.started:
            return
        self.subscriber.plan = self.subscriber.take
        self.steps()
        while self.subscriber.held:
            self.end_hold(*self.subscriber.held.popitem(), "done")
        self.steps()
        self.who_is_paused_has_no_credit_out()
        self.receiver.resume()
        self.steps()
        self.no_end_waits_for_a_wake_up()
        assert self.subscriber.subscription is not None
        self.subscriber.cancelled = True
        self.subscriber.subscription.cancel()
        self.steps()
        self.both_ends_have_ended_and_kept_nothing()
        self.law_5_every_item_is_accounted_for()
        self.a_completed_stream_is_a_whole_one()

    def who_is_paused_has_no_credit_out(self) -> None:
        alive = self.receiving_link.state is self.sending_link.state is State.ATTACHED
        if self.receiver.ledger.suspended and not self.receiver.ended and alive:
            assert self.receiving.credit() == self.sending.credit() == 0

    def no_end_waits_for_a_wake_up(self) -> None:
        """Whoever has demand has credit for it, and whoever has credit has been asked."""
        if self.receiver.ended or self.receiving_link.state is not State.ATTACHED:
            return
        ledger, credit = self.receiver.ledger, self.receiving.credit()
        assert (ledger.buffered, ledger.unsettled) == (0, 0)
        assert credit == self.sending.credit()
        assert credit > ledger.window // 2 or credit == min(ledger.demand, ledger.window)
        if credit and not self.sender._publisher.completed:
            assert not self.sender._items.payloads
            assert self.source.outstanding > 0
            assert not self.source.suspended

    def both_ends_have_ended_and_kept_nothing(self) -> None:
        assert self.receiving_link.state is State.DETACHED
        assert self.sending_link.state is State.DETACHED
        assert len(self.finished) == 1
        assert self.source.cancelled or self.source_ended or not self.source.subscriptions
        assert (self.receiver.ledger.buffered, self.receiver.ledger.unsettled) == (0, 0)
        assert not self.receiver._items.buffer
        assert not self.sender._items.payloads
        assert not self.sender.unsettled

    def law_5_every_item_is_accounted_for(self) -> None:
        """Each item sent has exactly one outcome, which the source has heard: what the subscriber did, or unknown."""
        outcomes, errors = self.source.outcomes, self.source.errors
        assert None not in outcomes, "a hold was forgotten"
        told = self.told_by_the_receiver()
        sent = len([tag for frame in self.sending.sent if isinstance(frame, Transfer) for tag in frame.deliveries])
        assert set(self.subscriber.items) <= set(range(1, sent + 1)), "items are numbered from 1, in order"
        if self.settlement is Settlement.AT_MOST_ONCE:
            assert told == {}
            return
        unknown = 0
        for item, (outcome, error) in enumerate(zip(outcomes, errors, strict=True), start=1):
            if item > sent:
                assert outcome == "released", "what was never sent is given back"
            elif error is not None and not isinstance(error, DeliveryFailed):
                unknown += 1
                assert self.cut or item not in self.subscriber.items, "handed over: so its outcome is known"
            elif item not in told:
                unknown += 1
                assert outcome == "released", "it crossed the detach of a subscriber that left"
                assert not self.publish
                assert item not in self.subscriber.items
            else:
                assert outcome == {"accepted": "done", "released": "released"}.get(told[item], "failed")
        assert unknown == self.sender.outcome_unknown
        assert outcomes.count("done") == self.sender.accepted
        if not self.cut:
            for item in self.subscriber.items:
                assert told[item] == self.subscriber.expected[item]

    def a_completed_stream_is_a_whole_one(self) -> None:
        """Who is told of the end, and not because the publish was cancelled, has had every item before."""
        refused = any(isinstance(error, DeliveryFailed) for error in self.finished)
        whole = self.source_ended and not self.aborted and not refused
        if self.subscriber.ended == "on_complete" and whole:
            assert self.subscriber.items == list(range(1, self.published + 1))

    def told_by_the_receiver(self) -> dict[int, str]:
        told: dict[int, str] = {}
        for frame in self.receiving.sent:
            if isinstance(frame, Disposition):
                for tag in frame.deliveries:
                    assert isinstance(tag, int)
                    assert tag + 1 not in told, "settled once"
                    told[tag + 1] = frame.outcome.kind
        return told


LinkLaws.TestCase.settings = settings(max_examples=150, stateful_step_count=40)
TestLinkLaws = pytest.mark.slow(LinkLaws.TestCase)
