"""Named subscriptions of this side: the peer keeps their messages while no link is attached.

The name of the subscription is the name of its link. With the container id of the connection it identifies the
subscription at the peer. AMQP brokers and their clients call this a durable subscription:

    source: durable 2, expiry-policy "never"    the subscription begins, or goes on
    detach without `closed`                     the link ends, and the subscription stays
    attach with a null source                   looks the subscription up
    detach with `closed`                        the subscription ends
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import trio

from rstreams._checks.names import require_name
from rstreams._events.table import SUBSCRIBER_RAISED
from rstreams.abc import Subscriber, Subscription
from rstreams.errors import Condition, ConfigError, LinkDetached
from rstreams.net.links.connection_links import Links
from rstreams.protocol.frames import Attach, Detach, Lost, Role
from rstreams.protocol.life import ReceiverPhase
from rstreams.protocol.options import ReceivingOptions
from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.states import State

T = TypeVar("T")


_NO_LINK = (State.UNATTACHED, State.DETACHED)


def require_subscription(links: Links, name: str | None, **others: object) -> str | None:
    """Return `name` if a stream of this connection may have a subscription of that name.

    Args:
        links: The links of the connection.
        name: The name; None: the stream has no named subscription.
        others: Options that a named subscription does not go with.

    Errors: `ConfigError` for a name that is not allowed, together with one of the others, or on a connection whose
        container id nobody has chosen: the next connection would have another one.
    """
    if name is None:
        return None
    require_name("", "subscription", name)
    call = f"subscription={name!r:.80}"
    if links.has_random_id:
        why = "it belongs to the container id of the connection, which must be the same next time"
        msg = f"{call}: {why}: connect(url, container_id=...)"
        raise ConfigError(msg)
    for option, value in others.items():
        if value is not None and value is not False:
            msg = f"{call}: {option}={value!r:.80}: not allowed for a named subscription"
            raise ConfigError(msg)
    return name


class Subscribed(LinkSubscription[T]):
    """The receiving end of a link that has a named subscription. It detaches the link, and does not close it.

    Attributes:
        waiting: The streams of the connection that attach the link when this end has lost it, or has not got it.
    """

    waiting: list[_Waiting]

    def __init__(
        self, subscriber: Subscriber[T], options: ReceivingOptions[T], on_raised: Callable[[BaseException], None]
    ) -> None:
        super().__init__(subscriber, options, on_raised)
        self._goodbye = Detach(closed=False)
        self.waiting = []

    def end_for_good(self) -> None:
        """End the subscription at the peer, too."""
        self._goodbye = Detach()
        self.cancel()

    def on_attach(self, frame: Attach) -> None:
        """The peer's answer, which must say that it keeps the subscription (3.5.6)."""
        super().on_attach(frame)
        if not frame.refuses and frame.own_expiry != "never":
            why = f"the expiry-policy is {frame.own_expiry!r}; a node keeps them for multicasts"
            text = f"subscription={frame.name!r:.80}: the peer keeps no named subscription here: {why}"
            error = LinkDetached(Condition.NOT_IMPLEMENTED.value, text)
            error.place = self.place()
            self._goodbye = Detach()
            self.give_up(error)
        if self.has_it:  # the subscriber has not cancelled in `on_subscribe`
            waiting, self.waiting = self.waiting, []
            for each in waiting:
                each.end.give_up(_taken(frame.name))

    @property
    def has_it(self) -> bool:
        """Whether the subscriber has the subscription: it has got `on_subscribe`, and has not cancelled."""
        return self._life.phase not in (ReceiverPhase.ATTACHING, ReceiverPhase.SILENT)

    @property
    def is_gone(self) -> bool:
        """Whether it has ended, and has no link."""
        return self.ended and self.state in _NO_LINK

    def on_detach(self, frame: Detach) -> None:
        """The peer's end, or its answer."""
        super().on_detach(frame)
        self._pass_on()

    def work(self) -> None:
        """Do what is possible; see `LinkSubscription.work`."""
        super().work()
        self._pass_on()

    def _wake(self) -> None:
        super()._wake()
        if self._link is None:
            self._pass_on()  # no link will do it

    def _pass_on(self) -> None:
        """Attach the link of the first stream that waits, if this end is gone."""
        if self.waiting and self.is_gone:
            (links, end, frame), *others = self.waiting
            self.waiting = []
            end.waiting = others
            links.subscribed[frame.name] = end
            links.receive(end, frame)
            end._pass_on()  # it may have been cancelled while it waited


class _Waiting(NamedTuple):
    """A stream that waits for the link of its subscription."""

    links: Links
    end: Subscribed[Any]
    frame: Attach


def _taken(name: str) -> ConfigError:
    return ConfigError(f"subscription={name!r:.80}: another stream of this connection has it")


def as_subscription(frame: Attach, name: str) -> Attach:
    """Return the attach for the named subscription."""
    return replace(frame, name=name, durable=True, expiry="never")


def attach_subscribed(links: Links, end: Subscribed[Any], frame: Attach) -> None:
    """Attach the link of a named subscription, when the last one of its name has ended.

    Errors: `on_error(ConfigError)` if another stream of the connection has the subscription. While the peer has not
        answered the attach of that stream, it may have been cancelled; this one then waits for the answer.
    """
    before = links.subscribed.get(frame.name)
    if before is None or (before.is_gone and not before.waiting):
        links.subscribed[frame.name] = end
        links.receive(end, frame)
    elif before.has_it:
        end.give_up(_taken(frame.name))
    else:
        before.waiting.append(_Waiting(links, end, frame))


class SubscriptionEnd(Subscribed[bytes]):
    """The receiving end of a link that looks a subscription up, and ends it.

    Attributes:
        source: The address that the subscription must be at.
        when_gone: Called when it has ended, and has no link.
        lost: The error of its connection, if the peer may not have heard the end, or of the peer, if it may not have
            made it; None otherwise.
    """

    source: str
    when_gone: Callable[[], None]
    lost: BaseException | None = None

    def on_attach(self, frame: Attach) -> None:
        """The peer's answer, with the source that it has found."""
        super().on_attach(frame)
        if frame.refuses or self.ended:
            return
        if frame.source == self.source:
            self.end_for_good()
        else:
            text = f"subscription={frame.name!r:.80}: it is at {frame.source!r:.80}, and not at {self.source!r:.80}"
            self.give_up(LinkDetached(Condition.NOT_FOUND.value, text))

    def on_detach(self, frame: Detach) -> None:
        """The peer's end, or its answer, which has an error if the subscription may come back."""
        if self.ended and self.lost is None:
            self.lost = frame.error
        super().on_detach(frame)

    def on_lost(self, frame: Lost) -> None:
        """The loss of the link: the peer may not have heard its end."""
        if not frame.returns or self.ended:
            self.lost = frame.error
        super().on_lost(frame)

    def _pass_on(self) -> None:
        super()._pass_on()
        if self.is_gone:
            self.when_gone()


class _Outcome:
    """The subscriber of a `SubscriptionEnd`: it hears why the subscription could not be ended.

    Attributes:
        known: Set when the subscription has ended, or could not be ended.
        error: The error; None if there was none.
    """

    def __init__(self) -> None:
        self.known = trio.Event()
        self.error: BaseException | None = None

    def on_subscribe(self, subscription: Subscription) -> None:
        """Request nothing."""

    def on_next(self, item: bytes) -> None:
        """Do nothing: no item is requested."""

    def on_error(self, error: BaseException) -> None:
        self.error = error
        self.known.set()

    def on_complete(self) -> None:
        self.known.set()


class SubscriptionMethods:
    """The method of a `Connection` for named subscriptions."""

    _links: Links

    async def unsubscribe(self, address: str, name: str) -> None:
        """End a named subscription: the peer deletes its messages, and keeps no later messages for it.

        Args:
            address: The address of `stream(address, subscription=name)`.
            name: The name of the subscription.

        Errors: `LinkDetached` with `amqp:not-found` if the peer has no such subscription of this container id and user.
            `LinkDetached` with `amqp:internal-error` if a node has ended it, and cannot write this end to its store
            now.
            `ConfigError` if a stream of this connection has it: end the stream first. The connection's error if it is
            lost.
        Cancels: The subscription may have been ended.
        Context: Any task of the connection's trio run; waits for the peer.
        Spec: AMQP 1.0 sections 2.6.5 and 3.5.6.
        """
        links = self._links
        require_name("unsubscribe", "address", address)
        require_subscription(links, name)
        elsewhere = links.elsewhere(f"unsubscribe({address!r})")
        if elsewhere is not None:
            raise elsewhere
        outcome = _Outcome()
        end = SubscriptionEnd(outcome, ReceivingOptions(decode=bytes, window=1), partial(log_raised, address))
        end.source = links.dialect.source(address).address
        end.when_gone = outcome.known.set
        frame = as_subscription(Attach(name, Role.RECEIVER, None, ""), name)
        attach_subscribed(links, end, frame)
        try:
            await outcome.known.wait()
        finally:
            end.cancel()
        error = outcome.error or end.lost
        if error is not None:
            raise error


def log_raised(address: str, error: BaseException) -> None:
    """Log that a subscriber has raised, which the specification forbids."""
    SUBSCRIBER_RAISED.tell(address, raised=error, address=address)
