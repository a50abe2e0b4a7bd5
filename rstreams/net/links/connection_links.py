"""The links of a connection: attached for its subscribers and senders, in the trio run of the connection."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary, WeakValueDictionary

import trio

from rstreams._core.beyond import Question, Sides
from rstreams._core.sight import Asked
from rstreams._core.subscription import subscribe_failed
from rstreams.abc import Publisher, Subscriber
from rstreams.culprits import WaitTree, culprits_of
from rstreams.errors import ConfigError, ConnectionLost, LinkDetached, RStreamsError
from rstreams.net.dialects import Dialect, PeerDescription, Place, dialect_of
from rstreams.net.links.asking import Asking, asked_by
from rstreams.net.links.bodies import open_body
from rstreams.net.links.effectively_once import ONCE, Stamper
from rstreams.net.links.failures import DeadLetterQueue
from rstreams.net.links.filters_in_force import FilterCheck
from rstreams.net.links.link_info import ItemRates, LinkInfo, info_of
from rstreams.net.links.link_name import LinkName
from rstreams.net.links.link_totals import Does, LinkTotals, totals_of
from rstreams.net.links.own_run import called_elsewhere
from rstreams.net.links.sending_end import PublishingEnd
from rstreams.net.links.sight import Sight
from rstreams.net.links.tracing import TracedEnd, TracesSending, Tracing
from rstreams.net.transport.carrier import Carrier
from rstreams.protocol.frames import ANONYMOUS_RELAY, EXPLAINS, Attach, Lost, Role
from rstreams.protocol.options import SendingOptions
from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.tally import TallySum
from rstreams.protocol.unsettled import UnsettledLimits
from rstreams.runtime.at_work import AtWork

_End: TypeAlias = LinkSubscription[Any] | PublishingEnd[Any]

_MOST_COUNTED: Final = 1000
"""The most addresses whose links are counted by themselves; the others count together."""


_OF_PEER: Final = ("$", "/management")
"""How the addresses of a peer itself begin; its answers are awaited by calls, which have limits of their own."""


class _Attached(NamedTuple):
    """What is known of an end that was attached.

    Attributes:
        order: How many ends came before it.
        shown: Its address, as it is shown.
        frame: Its first frame.
        rates: The rate of its items.
    """

    order: int
    shown: str
    frame: Attach
    rates: ItemRates


class Sending:
    """A link that sends, and how it ended.

    Attributes:
        end: The link's own end.
        finished: Set when the link has ended.
        error: The error that ended it; None if it ended in order.
    """

    def __init__(
        self,
        end: PublishingEnd[Any],
        on_finished: Callable[[BaseException | None], None] | None,
        on_leave: Callable[[RStreamsError], None] | None,
    ) -> None:
        """Send through `end`; see `Links.send`."""
        self.end = end
        self.finished = trio.Event()
        self.error: BaseException | None = None
        self._on_leave = on_leave
        self._on_finished = on_finished

    async def ended(self) -> None:
        """Wait until the link has ended; raise its error."""
        await self.finished.wait()
        if self.error is not None:
            raise self.error

    def leave(self, why: RStreamsError) -> None:
        """Take no more from the publisher, and end when the items that it has sent are settled."""
        if self._on_leave is None:
            self.end.leave()
        else:
            self._on_leave(why)

    def finish(self, error: BaseException | None) -> None:
        """Note the end, and tell the tasks that wait for it."""
        self.error = error
        self.finished.set()
        if self._on_finished is not None:
            self._on_finished(error)


class Links:
    """Attaches links to a peer.

    Attributes:
        at_work: Where handlers of `consume` and `respond` are at work.
        asks_broker: Asks the management of a broker about a link's address; None: nobody asks it.
        answer_timeout_s: How long the peer may take to answer a management request, in seconds.
        tracing: Makes traces of what is sent and received; None: nobody does.

    Context: The trio run that made it: `elsewhere` returns the error for a call from any other.
    """

    def __init__(
        self,
        carrier: Carrier,
        container_id: str,
        dialect: Dialect | None = None,
        unsettled: UnsettledLimits = UnsettledLimits(),  # noqa: B008 - it never changes
        *,
        has_random_id: bool = False,
    ) -> None:
        """Attach links over `carrier`, under names that begin with `container_id`.

        Args:
            carrier: The connection.
            container_id: This side's name for the peer.
            dialect: The dialect of the peer; None: chosen by the properties of the peer.
            unsettled: The most that each sending link may have unsettled.
            has_random_id: Whether nobody has chosen `container_id`: the next connection has another one.
        """
        self.carrier = carrier
        self.at_work = AtWork()
        self.has_random_id = has_random_id
        self.tracing: Tracing | None = None
        self.subscribed: WeakValueDictionary[str, Any] = WeakValueDictionary()  # the ends of named subscriptions
        self._dialect = dialect
        self._container_id = container_id
        self._unsettled = unsettled
        self._numbers = itertools.count(1)
        self._attached = itertools.count()
        self._own_run = trio.lowlevel.current_trio_token()
        self._received: WeakKeyDictionary[LinkSubscription[Any], None] = WeakKeyDictionary()  # in their order
        self._counted: dict[tuple[str, Does], TallySum] = {}  # of ends that are gone
        self._ends: WeakKeyDictionary[_End, _Attached] = WeakKeyDictionary()
        self._sendings: dict[Sending, None] = {}
        self.answer_timeout_s = math.inf
        self._receives = self._sends = True
        self._producers: set[tuple[str, str]] = set()  # producers that stamp their messages, with their addresses
        self._dead_letters: dict[str, DeadLetterQueue] = {}
        self._asking = Asking(carrier.attach, self.new_name, lambda: self.peer, container_id, trusts=True)
        self.asks_broker: Callable[[Links, LinkName, Question], Awaitable[WaitTree | None]] | None = None

    @property
    def peer(self) -> str:
        """The host and port of the peer, for messages."""
        return self.carrier.peer

    @property
    def dialect(self) -> Dialect:
        """The dialect of the peer."""
        return self._dialect or dialect_of(self.carrier.peer_properties, self._description.host)

    @property
    def _description(self) -> PeerDescription:
        return PeerDescription(self.carrier.peer_properties, self.peer.rpartition(":")[0])

    def elsewhere(self, call: str) -> RStreamsError | None:
        """Return the error for a call from another thread or trio run than the connection's, or after its end."""
        return called_elsewhere(self._own_run, call, f"the connection to {self.peer}")

    def source_for(self, subscriber: Subscriber[Any], call: str, address: str) -> Place | None:
        """Return the place of `address` at this peer; if there is none, None, and the subscriber hears the reason."""
        error = self.elsewhere(f"{call}({address!r})")
        if error is None:
            try:
                return self.dialect.source(address)
            except ConfigError as unknown:
                error = unknown
        subscribe_failed(subscriber, error)
        return None

    def receive(self, end: LinkSubscription[Any], frame: Attach) -> None:
        """Attach a link for a subscription; while the connection is being drained it fails at once."""
        if not self._receives:
            end.on_lost(Lost(self._draining))
            return
        self._received[end] = None
        self.attach(end, frame)

    def attach(self, end: _End, frame: Attach) -> None:
        """Attach a link for an end; from then on its errors name the peer and the address."""
        sends = frame.role is Role.SENDER
        address = frame.target if sends else frame.source
        shown = f"{'to' if sends else 'from'} {address!r:.80}"
        link = f", link {shown}" if address else ""
        end.place = lambda: f"{self.peer}{link}"
        end.beyond = self
        if not address:
            shown = "to each message's own address" if sends else "from the peer's choice"
        self._ends[end] = _Attached(next(self._attached), shown, frame, ItemRates())
        end.counted = self._counted_for(address or "", "publish" if sends else "subscribe")
        if isinstance(end, LinkSubscription) and frame.filters:
            check = FilterCheck(frame.filters)
            end.why_not, end.why_not_first = partial(self._why_not, check), check.first
        if self.carrier.returns:
            end.attach_later = lambda error: self.carrier.attach_later(end, frame, error)
            end.outlives_detach = self.carrier.keeps_links
        self.carrier.attach(end, frame)

    def _why_not(self, check: FilterCheck, answer: Attach) -> LinkDetached | None:
        return check.attach(answer, self.dialect, self._description)

    def send(
        self,
        call: str,
        address: str | None,
        items: Publisher[Any],
        options: SendingOptions,
        *,
        capabilities: tuple[str, ...] = (),
        stamper: Stamper | None = None,
        place: Place | None = None,
        traces: TracesSending | None = None,
        on_finished: Callable[[BaseException | None], None] | None = None,
        on_leave: Callable[[RStreamsError], None] | None = None,
    ) -> Sending:
        """Attach a link that sends the items of `items`.

        Args:
            call: The name of the user's call, for messages.
            address: The peer's name for the target; None: each message names its own.
            items: The publisher of the items.
            options: Those of the sending end, as far as they do not follow from the connection.
            capabilities: Capabilities that the target must have.
            stamper: Stamps the messages, so that the peer can drop repetitions.
            place: The target as the peer names it; None: as its dialect names `address`.
            traces: Hears the outcomes; None: nobody does.
            on_finished: Called when the link has ended, with the error or None.
            on_leave: Called instead of `PublishingEnd.leave` when the connection is drained, with the error for what
                would be sent later.

        Errors: `ConfigError` in another thread or trio run than the connection's, or for a producer that sends to the
            address already: if two number their messages at the same time, messages of one are lost. Without an
            address, for messages that are numbered, and for a peer that offers no such link. `ConnectionLost` when the
            connection has been drained.
        """
        error = self.elsewhere(call)
        if error is not None:
            raise error
        if not self._sends:
            raise self._draining
        if address is None:
            self._require_relay(call, numbered=stamper is not None)
        place = place or (Place("") if address is None else self.dialect.target(address))
        producer = None if stamper is None or address is None else (address, stamper.producer_id)
        if stamper is not None and producer is not None:
            if producer in self._producers:
                msg = f"{call}: producer_id={stamper.producer_id!r}: a producer with it is sending here already"
                raise ConfigError(msg)
            self._producers.add(producer)
            options = replace(options, encode=stamper.stamping(options.encode), numbered=True)

        def finish(error: BaseException | None) -> None:
            self._sendings.pop(sending, None)
            if producer is not None:
                self._producers.discard(producer)
            sending.finish(error)

        options = replace(
            options,
            settle_before_detach=True,
            resends=self.carrier.returns,
            open_body=open_body if stamper is None else None,
            unsettled=self._unsettled,
        )
        make_end = PublishingEnd[Any] if traces is None else partial(TracedEnd[Any], traces)
        end: PublishingEnd[Any] = make_end(items, options, finish, self.where(address))
        frame = Attach(
            self.new_name(),
            Role.SENDER,
            "",
            place.address,
            options.settlement,
            capabilities=capabilities or place.capabilities,
            properties={**end.properties(), **({} if stamper is None else {ONCE: True})},
        )
        sending = Sending(end, on_finished, on_leave)
        self._sendings[sending] = None
        self.attach(end, frame)
        return sending

    def _require_relay(self, call: str, *, numbered: bool) -> None:
        """Check that messages may go to addresses of their own over one link."""
        if numbered:
            msg = f"{call}: settlement='effectively_once' needs an address: it numbers the messages to one address"
            raise ConfigError(msg)
        if ANONYMOUS_RELAY not in self.carrier.peer_capabilities:
            msg = f"{call}: {self.peer} offers no link for messages to any address ({ANONYMOUS_RELAY}): give an address"
            raise ConfigError(msg)

    # the orderly end, see `rstreams.net.links.draining`

    def stop_receiving(self) -> None:
        """End every subscription in order, and take no new ones."""
        self._receives = False
        for end in list(self._received):
            end.leave()

    def stop_sending(self) -> None:
        """Have every publisher end in order, and take no new ones."""
        self._sends = False
        for sending in list(self._sendings):
            sending.leave(self._draining)

    def give_up(self) -> None:
        """End every subscription that is not through, and release the items that were not handed over."""
        for end in list(self._received):
            end.give_up(self._draining)

    @property
    def unsettled(self) -> int:
        """How many items have been received and are not settled."""
        return sum(end.in_hand for end in self._received)

    @property
    def received(self) -> bool:
        """Whether every subscription has ended, and every received item is settled."""
        return all(end.through for end in self._received)

    @property
    def sent(self) -> bool:
        """Whether every publisher has ended."""
        return not self._sendings

    @property
    def outcome_unknown(self) -> int:
        """How many items have been sent and not settled."""
        return sum(sending.end.unsettled for sending in self._sendings)

    @property
    def _draining(self) -> ConnectionLost:
        return ConnectionLost(f"the connection to {self.peer} is drained and closed from this side")

    def explain(self) -> Sight:
        """Return a line for each link, which tells what it waits for."""
        lines = [f"{attached.shown}: {end.waits_for}" for end, attached in self._living()]
        culprits = culprits_of(self.waits(Question()).waits_for)
        return Sight(f"connection to {self.peer}: {self.carrier.status.state}", tuple(lines), culprits)

    def named(self) -> list[tuple[LinkName, _End]]:
        """Return the ends of the links that have not ended, in the order in which they were attached, with their names.

        The address is that of the frame: an address that the peer chooses is "".
        """
        return [(self._name_of(attached.frame), end) for end, attached in self._living()]

    def info(self) -> list[LinkInfo]:
        """Return what the ends of the links tell that have not ended, in the order in which they were attached."""
        peer = self.peer
        return [info_of(self._name_of(each.frame), end, peer, each.rates) for end, each in self._living()]

    def _counted_for(self, address: str, does: Does) -> TallySum:
        if len(self._counted) >= _MOST_COUNTED and (address, does) not in self._counted:
            address = ""
        return self._counted.setdefault((address, does), TallySum())

    def totals(self) -> list[LinkTotals]:
        """Return the numbers of all links to each address, of those that have ended, too."""
        ends: defaultdict[TallySum | None, list[_End]] = defaultdict(list)
        for end in list(self._ends):
            ends[end.counted].append(end)
        return [totals_of(address, does, gone, ends[gone]) for (address, does), gone in self._counted.items()]

    def sides(self, end: _End) -> Sides:
        """Return the names of an end's link; see `Beyond`."""
        attached = self._ends.get(end)
        link = end.place() if attached is None else str(self._name_of(attached.frame))
        return Sides(link, self._container_id, self.peer)

    async def ask(self, end: _End, question: Question) -> WaitTree:
        """Ask the peer about its side of an end's link; see `Beyond`."""
        attached = self._ends.get(end)
        if attached is None or self.carrier.status.state != "connected":
            return WaitTree("peer", self.peer, "it is not connected")
        name = self._name_of(attached.frame)
        if EXPLAINS in self.carrier.peer_capabilities:
            about = replace(question, address="", container=name.container, does=name.does, link=name.link)
            return await self._asking.ask(about)
        tree = None
        if self.asks_broker is not None:
            with trio.move_on_after(question.within_s):
                tree = await self.asks_broker(self, name, question)
        return tree or WaitTree("peer", self.peer, "the peer tells nothing more")

    async def ask_node(self, question: Question) -> WaitTree:
        """Ask the peer about one of its addresses, or about all that waits there."""
        if EXPLAINS not in self.carrier.peer_capabilities:
            return WaitTree("peer", self.peer, "the peer tells nothing more")
        return await self._asking.ask(question)

    def asked(self, question: Question) -> Asked:
        """Return a question as it goes on in this process."""
        return asked_by(question, self._container_id)

    def waits(self, question: Question) -> WaitTree:
        """Return what the links of this connection wait for, or one of them, as far as this process knows."""
        asked = self.asked(question)
        found: list[WaitTree] = []
        for name, end in self.named():
            if not question.link:
                if not name.address.startswith(_OF_PEER):
                    found.append(end.part(None, asked))
            elif (name.link, name.does) == (question.link, question.does):
                found.append(end.part(question.want, asked))
        state = "it has no such link" if question.link and not found else ""
        return WaitTree("client", f"client {self._container_id!r:.120}", state, None, tuple(found))

    def _name_of(self, frame: Attach) -> LinkName:
        sends = frame.role is Role.SENDER
        address = frame.target if sends else frame.source
        does: Literal["publish", "subscribe"] = "publish" if sends else "subscribe"
        return LinkName(self._container_id, address or "", does, self.carrier.user, frame.name)

    def _living(self) -> list[tuple[_End, _Attached]]:
        """Return the ends that have not ended, in their order."""
        alive = [(end, attached) for end, attached in self._ends.items() if end.wants_link]
        return sorted(alive, key=lambda each: each[1].order)

    def where(self, address: str | None) -> Callable[[], str]:
        """Return a function that says where `address` is, for messages: at the peer that the connection has then."""
        shown = "each message's own address" if address is None else f"{address!r:.80}"
        return lambda: f"{shown} at {self.peer}"

    def new_name(self) -> str:
        """Return a name for a new link, unique on this connection."""
        return f"{self._container_id}/{next(self._numbers)}"

    def dead_letters_to(self, address: str) -> DeadLetterQueue:
        """Return the one queue of dead letters to `address`."""
        queue = self._dead_letters.get(address)
        if queue is None:
            attach, durable = self._attach_dead_letters(address), self.dialect.marks_durable
            queue = self._dead_letters[address] = DeadLetterQueue(address, attach, durable=durable)
        return queue

    def _attach_dead_letters(self, address: str) -> Callable[[DeadLetterQueue], object]:
        return lambda letters: self.send(
            f"DeadLetters({address!r})",
            address,
            letters,
            SendingOptions(encode=bytes),
            on_finished=letters.on_finished,
        )
