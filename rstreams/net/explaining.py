"""explain over connections: a client's answers about its own links, and what a broker's management tells."""

from __future__ import annotations

from typing import Final

from rstreams._core.beyond import Question
from rstreams.culprits import WaitTree, shown
from rstreams.errors import Condition, RStreamsError
from rstreams.message import encode_item
from rstreams.net._proton import LinkDriver
from rstreams.net.links.asking import EXPLAIN, go_on
from rstreams.net.links.connection_links import Links
from rstreams.net.links.explain_link import Starts, Trees
from rstreams.net.management.paired_requests import paired_requests, quoted
from rstreams.protocol.frames import Attach, Role, Settlement
from rstreams.protocol.options import SendingOptions
from rstreams.protocol.refusal import refuse
from rstreams.protocol.sender import LinkSubscriber
from rstreams.protocol.states import State

MOST_ANSWERS: Final = 4
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


async def ask_rabbitmq(links: Links, address: str) -> str:
    """Return what the management of RabbitMQ 4 tells of a queue, in one line; "" if the peer has none."""
    if str(links.carrier.peer_properties.get("product", "")).lower() != "rabbitmq" or not address:
        return ""
    queue = address.removeprefix("/queues/").removeprefix("/queue/")
    try:
        async with paired_requests(links, "explain", "/management") as requests:
            told = (await requests.request("GET", f"/queues/{quoted(queue)}")).body
    except RStreamsError as error:
        return f"its management tells nothing: {shown(str(error))}"
    numbers = {name: told.get(name) for name in ("message_count", "consumer_count")} if isinstance(told, dict) else {}
    if not all(isinstance(each, int) for each in numbers.values()) or not numbers:
        return "its management tells nothing of it"
    return f"queue {queue!r:.80}: {numbers['message_count']} messages, {numbers['consumer_count']} consumers"
