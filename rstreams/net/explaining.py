"""explain over connections: a client's answers about its own links, and what a broker's management tells."""

from __future__ import annotations

from typing import Final

from rstreams._core.beyond import Question
from rstreams._core.sight import Asked
from rstreams.culprits import WaitTree, shown
from rstreams.errors import Condition, RStreamsError
from rstreams.message import encode_item
from rstreams.net._proton import LinkDriver
from rstreams.net.links.asking import EXPLAIN, go_on
from rstreams.net.links.connection_links import Links
from rstreams.net.links.explain_link import Starts, Trees
from rstreams.net.links.link_name import LinkName
from rstreams.net.management.paired_requests import paired_requests, quoted
from rstreams.protocol.frames import Attach, Role, Settlement
from rstreams.protocol.options import SendingOptions
from rstreams.protocol.refusal import refuse
from rstreams.protocol.sender import LinkSubscriber
from rstreams.protocol.states import State

MOST_ANSWERS: Final = 16
"""The most links on which a client answers at a time."""


class ClientAnswers:
    """What a client answers when its peer attaches a link: it has the address `$explain`, and no other.

    It tells of its links on this connection, and of what these wait for.

    Args:
        start: Starts a task in the scope of the connection.

    Attributes:
        links: The links of the connection; None before it is open.
    """

    def __init__(self, start: Starts) -> None:
        self.links: Links | None = None
        self._start = start
        self._answering: list[LinkSubscriber[object]] = []

    def attach(self, driver: LinkDriver, frame: Attach) -> None:
        """Answer a peer's attach."""
        links = self.links
        if links is None or frame.role is not Role.RECEIVER or frame.source != EXPLAIN:
            text = f"this side is a client: {EXPLAIN!r} is its only address"
            driver.bind(refuse(driver, frame, Condition.NOT_ALLOWED.value, text))
            return
        self._answering = [end for end in self._answering if end.wants_link and end.state is not State.DETACHED]
        if len(self._answering) >= MOST_ANSWERS:
            text = f"this client answers {MOST_ANSWERS} questions already"
            driver.bind(refuse(driver, frame, Condition.RESOURCE_LIMIT_EXCEEDED.value, text))
            return

        async def answer(question: Question) -> WaitTree:
            return await go_on(links.waits(question), question)

        options = SendingOptions(encode=encode_item, settlement=Settlement.AT_MOST_ONCE)
        end: LinkSubscriber[object] = LinkSubscriber(Trees(frame, answer, self._start), options, lambda _error: None)
        self._answering.append(end)
        link = end.bind(frame.name, driver)
        driver.bind(link)
        link.receive(frame)
        link.send(Attach(frame.name, Role.SENDER, EXPLAIN, frame.target, Settlement.AT_MOST_ONCE, distribution="copy"))
        end.start()


async def ask_rabbitmq(links: Links, name: LinkName, question: Question) -> WaitTree | None:
    """Return what the management of RabbitMQ 4 tells of a link's queue; None if the peer has no such management."""
    if str(links.carrier.peer_properties.get("product", "")).lower() != "rabbitmq" or not name.address:
        return None
    queue = name.address.removeprefix("/queues/").removeprefix("/queue/")
    try:
        async with paired_requests(links, "explain", "/management") as requests:
            told = (await requests.request("GET", f"/queues/{quoted(queue)}")).body
    except RStreamsError as error:
        return WaitTree("peer", links.peer, f"its management tells nothing: {shown(str(error))}")
    numbers = [told.get(each) for each in ("message_count", "consumer_count")] if isinstance(told, dict) else []
    counts = [each for each in numbers if isinstance(each, int)]
    if len(counts) < 2:
        return WaitTree("peer", links.peer, "its management tells nothing of it")
    return _queue_of_rabbitmq(links.asked(question), queue, *counts, publishes=name.does == "publish")


def _queue_of_rabbitmq(asked: Asked, queue: str, messages: int, consumers: int, *, publishes: bool) -> WaitTree:
    """Return the state of a queue, as far as it is the reason that one who publishes, or consumes, waits."""
    place = f"queue {queue!r:.80} of RabbitMQ"
    state = f"{messages} message{'' if messages == 1 else 's'}, {consumers} consumer{'' if consumers == 1 else 's'}"
    blame = None
    if publishes and messages:
        kind = "slow_consumer" if consumers else "no_consumer"
        why = f"the consumers of {place} do not keep up" if consumers else f"nobody takes from {place}"
        blame = asked.blame(kind, f"{why}: {state}", queue)
    elif not publishes and not messages:
        blame = asked.blame("no_publisher", f"{place} is empty: nobody publishes to it", queue)
    return WaitTree("address", place, state, blame)
