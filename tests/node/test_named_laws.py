"""Named subscriptions by random scripts: nothing is missing, nothing that was settled comes again, the order holds."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rstreams.errors import LinkDetached, StoreError
from rstreams.message import decode_body, encode_item
from rstreams.node.address import LinkRequest, NodeServices, SubscriptionOwner
from rstreams.node.multicast import MulticastAddress
from rstreams.node.named_subscriptions import BacklogOptions, NamedSubscription
from rstreams.protocol.frames import Attach, Role
from rstreams.store import Store
from rstreams.testing import ManualPublisher, ProbeSubscriber

NAMES = ("a", "b", "c")


class Link:
    """A link that has a named subscription: an end of the node, played by hand."""

    def __init__(self, model: Model, named: NamedSubscription, demand: int) -> None:
        self.model = model
        self.named = named
        self.probe = ProbeSubscriber[bytes](demand, hold=True)
        self.seen = 0
        named.taken_by(self)

    @property
    def subscription(self) -> Any:  # noqa: ANN401 - that of a queue's consumer
        """The subscription, which the address has given it."""
        return self.probe.subscription

    def take_away(self, error: LinkDetached) -> None:  # noqa: ARG002 - no peer hears of it
        self.leave()

    def answer(self, error: StoreError | None) -> None:
        """Do nothing: no peer has ended the subscription."""

    def leave(self) -> None:
        """Go; what is not settled is given back later, in any order."""
        self.subscription.cancel()
        self.model.out += self.holds()
        self.named.left_by(self, for_good=False)
        self.model.link = None
        self.model.gone()

    def holds(self) -> list[Any]:
        return self.probe.holds[self.seen :]

    def settle(self, most: int) -> None:
        for _ in range(min(most, len(self.holds()))):
            hold = self.probe.holds[self.seen]
            self.model.settled.append(decode_body(self.probe.items[self.seen]))
            self.seen += 1
            hold.done()


class Model:
    """One subscription as it must be.

    Attributes:
        due: The numbers that came since it began, without those that earlier links have settled.
        settled: The numbers that its link has settled.
        link: Its link; None while it is away.
        out: The holds of earlier links, which are not given back.
    """

    def __init__(self) -> None:
        self.due: list[int] = []
        self.settled: list[Any] = []
        self.link: Link | None = None
        self.out: list[Any] = []

    def gone(self) -> None:
        """Note that its link has gone."""
        for number in self.settled:
            self.due.remove(number)
        self.settled.clear()


class NamedLaws(RuleBasedStateMachine):
    """A multicast, in memory or in a store, with subscriptions that come, go and end."""

    store: Store | None = None
    folder: tempfile.TemporaryDirectory[str] | None = None

    @initialize(durable=st.booleans(), overflow=st.sampled_from(["block", "drop_oldest"]), capacity=st.integers(1, 12))
    def start(self, *, durable: bool, overflow: Literal["block", "drop_oldest"], capacity: int) -> None:
        self.overflow, self.capacity = overflow, capacity
        self.sent = 0
        self.accepted = 0
        self.models: dict[str, Model] = {}
        self.rung = threading.Event()
        if durable:
            self.folder = tempfile.TemporaryDirectory()
            self.store = Store(Path(self.folder.name) / "s", self.rung.set)
        self.open()

    def open(self) -> None:
        self.deadline = False
        self.kept: list[int] = []  # they wait for the first subscription

        def wake_at(_: float) -> None:
            self.deadline = True

        services = NodeServices(now=lambda: 0.0, wake_at=wake_at, start_soon=lambda *_: None, find=lambda _: None)
        options = BacklogOptions(items=None, store=self.store)
        self.address = MulticastAddress("m", self.overflow, self.capacity, options)
        self.address.begin(services)
        self.link = ManualPublisher[bytes]()
        self.link.subscribe(self.address.producer())
        self.run()

    def run(self) -> None:
        """Let the store do everything."""
        while self.store is not None:
            through: list[StoreError | None] = []
            self.store.partition("barrier").delete((), through.append)
            while not through:
                assert self.rung.wait(30)
                self.rung.clear()
                self.store.finish()
            if not any(
                each.backlog.storage.comes_later or each.backlog.statistics().unsafe for each in self.address.named.all
            ):
                break
        if self.deadline:
            self.deadline = False
            self.address.expire()

    @rule(most=st.integers(1, 12))
    def send(self, most: int) -> None:
        for _ in range(min(most, self.link.outstanding)):
            for model in self.models.values():
                model.due.append(self.sent)
            if self.overflow == "block" and not self.models:
                self.kept.append(self.sent)
            self.link.next(encode_item(self.sent))
            self.sent += 1
        self.run()

    @rule(name=st.sampled_from(NAMES), demand=st.integers(0, 9))
    def attach(self, name: str, demand: int) -> None:
        """Attach a link, which takes the subscription over if another one has it."""
        model = self.models.setdefault(name, Model())
        model.due += self.kept
        self.kept.clear()
        frame = Attach(name, Role.RECEIVER, "m", "", durable=True, expiry="never")
        supply = self.address.supply(LinkRequest(frame, "shop"))
        assert isinstance(supply.named, NamedSubscription)
        link = Link(model, supply.named, demand)
        model.link = link
        supply.publisher.subscribe(link.probe)
        self.run()

    @precondition(lambda self: any(model.link for model in self.models.values()))
    @rule(data=st.data(), n=st.integers(1, 9))
    def request(self, data: st.DataObject, n: int) -> None:
        self.drawn_link(data).subscription.request(n)
        self.run()

    @precondition(lambda self: any(model.link for model in self.models.values()))
    @rule(data=st.data(), most=st.integers(1, 9))
    def settle(self, data: st.DataObject, most: int) -> None:
        self.drawn_link(data).settle(most)
        self.run()

    @precondition(lambda self: any(model.link for model in self.models.values()))
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        self.drawn_link(data).leave()
        self.run()

    @precondition(lambda self: any(model.out for model in self.models.values()))
    @rule(data=st.data(), most=st.integers(1, 9))
    def give_back(self, data: st.DataObject, most: int) -> None:
        model = data.draw(st.sampled_from([model for model in self.models.values() if model.out]))
        for _ in range(min(most, len(model.out))):
            model.out.pop(data.draw(st.integers(0, len(model.out) - 1))).release()
        self.run()

    def drawn_link(self, data: st.DataObject) -> Link:
        links = [model.link for model in self.models.values() if model.link is not None]
        return data.draw(st.sampled_from(links))

    @precondition(lambda self: any(model.link is None for model in self.models.values()))
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([name for name, model in self.models.items() if model.link is None]))
        del self.models[name]
        assert self.address.unsubscribe("shop", name)
        self.run()

    @precondition(
        lambda self: self.store is not None and not any(model.link or model.out for model in self.models.values())
    )
    @rule()
    def start_again(self) -> None:
        """End the node, and start another one with its store."""
        assert self.store is not None
        path = self.store.path
        self.store.close()
        self.store.finish()
        self.store = Store(path, self.rung.set)
        self.open()

    @invariant()
    def each_gets_what_came_in_order(self) -> None:
        for name, model in self.models.items():
            link = model.link
            if link is None:
                continue
            got = [decode_body(item) for item in link.probe.items]
            due = [number for number in model.due if number not in model.settled]
            assert got[: link.seen] == [each for each in got[: link.seen] if each in model.settled], name
            open_ = got[link.seen :]
            assert open_ == due[: len(open_)], "in order, and all that were given back before first"
            wanted = link.subscription.demand
            if model.out:
                assert not got, "a link waits until the one before has given back its messages"
            else:
                assert not wanted or len(open_) == len(due), "nothing waits while there is demand"

    @invariant()
    def the_counters_are_exact(self) -> None:
        for name, model in self.models.items():
            [named] = [each for each in self.address.named.all if each.owner == SubscriptionOwner("shop", name)]
            now = named.statistics()
            assert now.waiting + now.unsettled == len(model.due) - len(model.settled)
            assert (now.attached, now.dropped) == (model.link is not None, 0)
        assert self.address.tally().missing == 0

    @invariant()
    def every_message_is_accepted_that_somebody_gets(self) -> None:
        waiting = [outcome for outcome in self.link.outcomes if outcome != "done"]
        assert waiting == [None] * len(self.kept)

    def teardown(self) -> None:
        if self.store is not None and self.folder is not None:
            self.store.close()
            self.store.finish()
            self.folder.cleanup()


TestNamedLaws: Any = pytest.mark.slow(NamedLaws.TestCase)
TestNamedLaws.settings = settings(max_examples=60, stateful_step_count=30)
