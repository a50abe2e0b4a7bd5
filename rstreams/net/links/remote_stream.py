"""Streams from a peer: the publisher whose every subscription attaches a link."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypedDict, TypeVar, runtime_checkable

from rstreams._checks.numbers import require_count
from rstreams._checks.publishers import require_subscriber
from rstreams._core.contexts import carrier_here
from rstreams._core.sight import Watched
from rstreams._core.subscription import subscribe_failed
from rstreams._events.table import LINK_PLACE_MISSING
from rstreams._stages.carrying import ContextStage, takes_pairs
from rstreams.abc import Subscriber
from rstreams.errors import Condition, ConfigError, LinkDetached
from rstreams.net.dialects import Dialect, Offset
from rstreams.net.links.connection_links import Links
from rstreams.net.links.effectively_once import ONCE, RESUMES, OnceStage
from rstreams.net.links.failures import DeadLetters, FailureName
from rstreams.net.links.last_message import LastMessage
from rstreams.net.links.manual_settlement import manual_stage
from rstreams.net.links.named_subscriptions import Subscribed, as_subscription, attach_subscribed, log_raised
from rstreams.net.links.offsets import Position, end_filter, group_filter
from rstreams.net.links.tracing import TracesReceiving
from rstreams.protocol.frames import Attach, Role, Settlement
from rstreams.protocol.options import ReceivingOptions
from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.states import State

T = TypeVar("T")


class StreamOptions(TypedDict, total=False):
    """The options that all streams from a peer have; see `Connection.stream`."""

    window: int | None
    window_bytes: int | None
    on_failure: FailureName | DeadLetters
    expose_errors: bool
    browse: bool
    filters: Mapping[str, Any] | None
    capabilities: Sequence[str]
    pack_items: int
    dedup_window: int | None
    start: Offset | None
    to_end: bool
    group: str | None
    subscription: str | None
    priority: int | None


@runtime_checkable
class KnowsOldest(Protocol):
    """A subscriber that knows which of its items has been in hand longest."""

    def oldest(self) -> str:
        """Say which item that is, as the end of a sentence; "" if it has no item."""
        ...


@dataclass(frozen=True, slots=True)
class LinkSource(Generic[T]):
    """The source of `Connection.stream`: its options, checked.

    Attributes:
        address: The peer's name for the source.
        receiving: The options of the receiving end, as far as they are the same for every subscription and peer.
        settlement: How deliveries are settled.
        manual: Whether items come in a `Delivery`, whose outcome the user decides.
        filters: The filters of the source, by their names.
        capabilities: Capabilities that the source must have.
        browse: Whether to get copies of the messages of the source, and leave them there.
        start: Where in a log it begins; None: where the peer begins.
        to_end: Whether it completes behind the messages that are there when it begins.
        group: The consumer group that it is a member of; None: none.
        subscription: The name of its subscription, which the peer keeps; None: it ends with the link.
        priority: Its priority among the receivers that share the messages; None: none.
        remembered: How many messages accepted last are known if they come again; 0: every message is handed over.
    """

    address: str
    receiving: ReceivingOptions[T]
    settlement: Settlement
    manual: bool = False
    filters: Mapping[str, Any] = field(default_factory=dict)
    capabilities: tuple[str, ...] = ()
    remembered: int = 0
    browse: bool = False
    start: Offset | None = None
    to_end: bool = False
    group: str | None = None
    subscription: str | None = None
    priority: int | None = None


class Browsing(LinkSubscription[T]):
    """The receiving end of a link that gets copies. It requests nothing from a peer that does not promise copies."""

    def on_attach(self, frame: Attach) -> None:
        """The peer's answer, with the distribution mode that is in force (2.7.3, 3.5.6)."""
        super().on_attach(frame)
        if not frame.refuses and frame.distribution != "copy":
            said = f"distribution-mode {frame.distribution}" if frame.distribution else "no distribution-mode"
            text = f"browse=True: the peer does not say that it gives out copies ({said}): it may remove what it sends"
            error = LinkDetached(Condition.NOT_IMPLEMENTED.value, text)
            error.place = self.place()
            self.give_up(error)


class Resuming(LinkSubscription[T]):
    """The receiving end of a link that goes on after a loss where it was.

    Attributes:
        position: The place in a log that it has got to; None if it does not begin at a place.
        begin_at: Returns the filters that begin at an offset.
        once: Whether the peer is told that the link goes on.
        place_gone: The conditions of a peer that cannot go on there; see `Dialect`.
        filtered: Whether the link has a filter besides the place where it begins.
    """

    position: Position | None
    begin_at: Callable[[int], Mapping[str, Any]]
    once: bool
    place_gone: frozenset[str]
    filtered: bool
    _awaited: LastMessage | None = None
    _looks_for_it = False

    def on_attach(self, frame: Attach) -> None:
        """The peer's answer, which may tell the offset of the first message."""
        super().on_attach(frame)
        if self.position is not None:
            self.position.begin(frame.filters, frame.properties)
        if self._awaited is not None and not self._looks_for_it and self.ledger.grant(0) and not self.ledger.suspended:
            self._looks_for_it = True
            self.drain(self._is_at_end)  # the message is there and comes, or the peer has none from there on

    def _is_at_end(self) -> None:
        self._looks_for_it = False
        if self._awaited is not None:
            place = self.place()
            LINK_PLACE_MISSING.tell(place, link=place, why=self._awaited.missing)

    def next_attach(self, frame: Attach) -> Attach:
        """Return the first attach, or one that goes on behind the items that have come and are not dropped."""
        position, kept = self.position, self.last_kept
        if position is not None and kept is not None:
            position.note(kept)  # it came settled, and is handed over later
        if position is not None:
            frame = replace(frame, filters={**frame.filters, **position.going_on(self.begin_at)})
            if position.last and position.following is not None:
                self._awaited = LastMessage(position.following - 1, position.last, filtered=self.filtered)
        if self._goes_on:
            frame = replace(frame, properties={**frame.properties, RESUMES: True})
        return frame

    @property
    def waits_for(self) -> str:
        """The reason for waiting that `explain` shows: also a message that may never come again."""
        text = super().waits_for
        if self._awaited is None or self.state is not State.ATTACHED:
            return text
        return f"{text}; {self._awaited.missing}"

    def _was_seen(self, first: bytes) -> bool:
        """Return whether it is the last message that was handed over before the loss."""
        awaited, self._awaited = self._awaited, None
        return awaited is not None and awaited.comes_again(first)

    @property
    def _goes_on(self) -> bool:
        return self.once and self.counts().delivered > 0

    def _may_pass(self, condition: str) -> bool:
        """Return False also if the peer does not have the place any more at which the next link is to begin."""
        asks = self._goes_on or (self.position is not None and bool(self.position.going_on(self.begin_at)))
        return super()._may_pass(condition) and not (asks and condition in self.place_gone)


class LinkPublisher(Watched, Generic[T]):
    """The publisher behind `Connection.stream`: each subscription attaches a link."""

    def __init__(self, links: Links, options: LinkSource[T]) -> None:
        """Publish the items from `options.address`."""
        super().__init__()
        self._links = links
        self._options = options

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        """Attach a link for `subscriber`; see `Connection.stream`."""
        require_subscriber(subscriber)
        links, options = self._links, self._options
        place = links.source_for(subscriber, "stream", options.address)
        if place is None:
            return
        dialect = links.dialect
        try:
            if options.browse:
                _require_browsing(dialect, options.address)
            begin = {} if options.start is None else dialect.offset(options.start)
            if options.priority is not None:
                place = dialect.preferred(place, options.priority)
        except ConfigError as error:
            subscribe_failed(subscriber, error)
            return

        receiver: Subscriber[Any] = subscriber
        if options.manual:
            receiver = manual_stage(receiver)
        oldest = receiver.oldest if isinstance(receiver, KnowsOldest) else str
        decode: Callable[[bytes], Any] = options.receiving.decode
        receiver, decode, traces = self._traced(receiver, decode)
        if options.remembered:
            receiver = once = OnceStage(receiver, decode, remembered=options.remembered, losses=lambda: end.losses)
            decode = once.decode
        position = _position_for(options, keeps_last=dialect.compares_last)
        resumes = position is not None or options.remembered > 0
        make = _end_for(options, resumes=resumes)
        receiving = replace(
            receiving_from(options.address, dialect, options.receiving),
            decode=decode,
            oldest=oldest,
            on_handed_over=None if position is None else position.note,
            watch=traces,
        )
        end = make(receiver, receiving, self._raised)
        self._begins(end)
        if isinstance(end, Resuming):
            end.position, end.begin_at, end.once = position, dialect.offset, bool(options.remembered)
            end.place_gone, end.filtered = dialect.place_gone, bool(options.filters)
        frame = Attach(
            links.new_name(),
            Role.RECEIVER,
            place.address,
            "",
            options.settlement,
            distribution="copy" if options.browse else "",
            filters={
                **options.filters,
                **begin,
                **group_filter(options.group),
                **end_filter(to_end=options.to_end),
            },
            capabilities=options.capabilities or place.capabilities,
            properties={**place.properties, **end.properties(), **({ONCE: True} if options.remembered else {})},
        )
        if options.subscription is not None and isinstance(end, Subscribed):
            attach_subscribed(links, end, as_subscription(frame, options.subscription))
        else:
            links.receive(end, frame)

    def _traced(
        self, receiver: Subscriber[Any], decode: Callable[[bytes], Any]
    ) -> tuple[Subscriber[Any], Callable[[bytes], Any], TracesReceiving | None]:
        """Return the subscriber and the decoder, with the contexts of messages if somebody traces them, and who."""
        carrier, tracing, options = carrier_here(), self._links.tracing, self._options
        if tracing is None or carrier is None:
            return receiver, decode, None
        traces = tracing.receiving(options.address, options.group or options.subscription)
        if not takes_pairs(receiver):
            receiver = ContextStage(receiver, carrier)
        return receiver, traces.decoding(decode), traces

    def _raised(self, error: BaseException) -> None:
        log_raised(self._options.address, error)


def _position_for(options: LinkSource[Any], *, keeps_last: bool) -> Position | None:
    """Return the place that a link goes on from after a loss; None if it begins where a new link begins.

    A member of a group that began with the first message misses nothing in a log that was made anew.
    """
    in_group = options.group is not None
    if options.start is None or (in_group and options.start == "first"):
        return None
    return Position(in_group=in_group, keeps_last=keeps_last)


def _require_browsing(dialect: Dialect, address: str) -> None:
    if dialect.ignores_browse:
        why = "such a peer removes browsed messages from a queue; read a stream, which keeps them, without browse"
        msg = f"browse=True: {address!r} is at a peer of dialect {dialect.name!r}; {why}"
        raise ConfigError(msg)


def require_priority(priority: int | None, **copies: object) -> int | None:
    """Return `priority` if a stream may have it; `copies` are the options with which it gets copies of all messages.

    Errors: `ConfigError` if not.
    """
    if priority is not None:
        require_count("", "priority", priority, -(2**31), 2**31 - 1, unit="")
        for option, value in copies.items():
            if value is not None and value is not False:
                why = "because each of its receivers gets all messages"
                msg = f"priority={priority!r}: not allowed beside {option}={value!r}, {why}"
                raise ConfigError(msg)
    return priority


def _end_for(options: LinkSource[Any], *, resumes: bool) -> type[LinkSubscription[Any]]:
    """Return the class of the link's end."""
    if options.browse:
        return Browsing
    if options.subscription is not None:
        return Subscribed  # the peer itself sends unsettled messages again
    return Resuming if resumes else LinkSubscription


def receiving_from(address: str, dialect: Dialect, options: ReceivingOptions[T]) -> ReceivingOptions[T]:
    """Return the options of a link from `address` at a peer of this dialect.

    Its name in messages has the dialect, if it does not answer drains.
    """
    label = f"link {address!r}" + ("" if dialect.answers_drain else f" (dialect {dialect.name!r})")
    return replace(options, renews_at_zero=dialect.renews_at_zero, answers_drain=dialect.answers_drain, label=label)
