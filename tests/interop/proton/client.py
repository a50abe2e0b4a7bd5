"""Does one thing with the `Container` of python-qpid-proton, and ends: `python3 - URL WHAT ADDRESS < client.py`.

Each event is one line of JSON on standard output. It runs in a chroot with Debian's package, not with what the
tests have.
"""

import json
import sys
from abc import ABC, abstractmethod

import proton
from proton import Condition, Delivery, Message, symbol
from proton.handlers import MessagingHandler
from proton.reactor import AtLeastOnce, AtMostOnce, Container, LinkOption, ReceiverOption

URL, WHAT, ADDRESS = sys.argv[1:4]


def tell(event, **more):
    print(json.dumps({"event": event, **more}), flush=True)


class Client(MessagingHandler, ABC):
    """What all have in common: it tells what came and how links end, and closes the connection at the end."""

    def __init__(self, **options):
        super().__init__(**options)
        self.received = 0
        self.connection = None

    def on_start(self, event):
        self.container = event.container
        self.connection = event.container.connect(URL, reconnect=False, heartbeat=10)
        self.begin(event.container)

    @abstractmethod
    def begin(self, container):
        """Begin what the client is for."""

    def on_message(self, event):
        self.received += 1
        body = event.message.body
        data = isinstance(body, (bytes, memoryview))
        tell(
            "message",
            body=bytes(body[:20]).decode("latin-1") if data else body,
            size=len(body) if data else None,
            settled=event.delivery.settled,
            count=event.message.delivery_count,
            properties=event.message.properties,
            id=event.message.id,
        )
        self.on_item(event)

    def on_item(self, event):
        pass

    def ended(self, name, endpoint):
        condition = endpoint.remote_condition
        tell(name, condition=condition and condition.name, description=condition and condition.description)

    def on_link_error(self, event):
        self.ended("sender_error" if event.link.is_sender else "receiver_error", event.link)
        event.connection.close()

    def on_link_closing(self, event):  # by the peer
        self.ended("sender_close" if event.link.is_sender else "receiver_close", event.link)
        event.connection.close()

    def on_connection_error(self, event):
        self.ended("connection_error", event.connection)

    def on_transport_error(self, event):
        condition = event.transport.condition
        tell("transport_error", condition=condition and condition.name, description=condition and condition.description)
        event.connection.close()


class All(Client):
    """Receives to the end, ten credits at a time, and accepts by itself."""

    def __init__(self):
        super().__init__(prefetch=10)

    def begin(self, container):
        container.create_receiver(self.connection, ADDRESS, options=AtLeastOnce())


class Presettled(All):
    """The same, of deliveries that are settled."""

    def begin(self, container):
        container.create_receiver(self.connection, ADDRESS, options=AtMostOnce())


class Credit(Client):
    """Five, then three more, then all there is; and a drain when the credit is used up."""

    def __init__(self):
        super().__init__(prefetch=0)
        self.drains = 0

    def begin(self, container):
        container.create_receiver(self.connection, ADDRESS)

    def on_link_opened(self, event):
        event.receiver.flow(5)

    def on_item(self, event):
        receiver = event.receiver
        if self.received == 5:
            receiver.flow(3)
        if self.received == 8:
            tell("eight", credit=receiver.credit)
            self.drain(receiver, 20)

    def drain(self, receiver, more):
        receiver.drain(more)

    def on_link_flow(self, event):
        receiver = event.receiver
        if receiver is not None and self.received >= 8 and not receiver.draining():
            tell("drained", credit=receiver.credit, returned=receiver.drained())
            receiver.close()
            event.connection.close()


class Outcomes(Client):
    """One outcome each: accepted, rejected, released, modified."""

    def __init__(self):
        super().__init__(prefetch=0, auto_accept=False)

    def begin(self, container):
        container.create_receiver(self.connection, ADDRESS)

    def on_link_opened(self, event):
        event.receiver.flow(4)

    def on_item(self, event):
        delivery = event.delivery
        if self.received == 1:
            self.accept(delivery)
        elif self.received == 2:
            delivery.local.condition = Condition("rstreams:bad-item", "number two")
            self.settle(delivery, Delivery.REJECTED)
        elif self.received == 3:
            self.release(delivery, delivered=False)
        else:
            delivery.local.failed = True
            delivery.local.undeliverable = True
            self.settle(delivery, Delivery.MODIFIED)
            event.receiver.close()
            event.connection.close()


class Failing(Client):
    """Gives back what it gets, as failed, until it comes the third time."""

    def __init__(self):
        super().__init__(prefetch=0, auto_accept=False)

    def begin(self, container):
        container.create_receiver(self.connection, ADDRESS)

    def on_link_opened(self, event):
        event.receiver.flow(1)

    def on_item(self, event):
        if self.received < 3:
            event.delivery.local.failed = True
            self.settle(event.delivery, Delivery.MODIFIED)
            event.receiver.flow(1)
        else:
            self.accept(event.delivery)
            event.receiver.close()
            event.connection.close()


class Sends(Client):
    """Sends within credit, and waits for each outcome."""

    def messages(self):
        return [Message(body=number) for number in range(200)]

    def begin(self, container):
        self.left, self.settled = self.messages(), 0
        self.due = len(self.left)
        container.create_sender(self.connection, ADDRESS)

    def on_sendable(self, event):
        while event.sender.credit and self.left:
            event.sender.send(self.left.pop(0))

    def on_accepted(self, _event):
        tell("accepted")

    def on_rejected(self, event):
        condition = event.delivery.remote.condition
        tell("rejected", condition=condition and condition.name, description=condition and condition.description)

    def on_settled(self, event):
        self.settled += 1
        if self.settled == self.due:
            event.connection.close()


class Bodies(Sends):
    def messages(self):
        return [
            Message(body="text"),
            Message(body=5),
            Message(body=2.5),
            Message(body=True),
            Message(body=None),
            Message(body=[1, "two", None]),
            Message(body={"a": 1}),
            Message(body=b"data", inferred=True),
            Message(body=b"binary"),
            Message(body=symbol("a-symbol")),
            Message(id="m-1", subject="hot", properties={"whole": 31, "text": "x"}, body="x", durable=True, ttl=60),
        ]


class Large(Sends):
    def messages(self):
        return [Message(body=b"abc" * 1_000_000, inferred=True)]


class Asks(Client):
    """Asks for replies to an address that the peer makes."""

    def begin(self, container):
        self.requests = ["tea", "milk", "bad"]
        self.replies = container.create_receiver(self.connection, None, dynamic=True)
        self.sender = container.create_sender(self.connection, ADDRESS)

    def on_link_opened(self, event):
        if event.receiver == self.replies:
            self.ask()

    def ask(self):
        to = self.replies.remote_source.address
        self.sender.send(Message(id=self.requests[0], reply_to=to, body=self.requests[0]))

    def on_item(self, event):
        tell("reply", body=event.message.body, to=event.message.correlation_id)
        self.requests.pop(0)
        if self.requests:
            self.ask()
        else:
            event.connection.close()


class Responds(Client):
    """Takes requests from an address, and answers each where it says."""

    def begin(self, container):
        self.senders = {}
        container.create_receiver(self.connection, ADDRESS)

    def on_item(self, event):
        to = event.message.reply_to
        if to not in self.senders:
            self.senders[to] = self.container.create_sender(self.connection, to)
        reply = Message(correlation_id=event.message.id, body=event.message.body.upper())
        self.senders[to].send(reply)


class Attach(Client):
    def begin(self, container):
        container.create_receiver(self.connection, ADDRESS)


class Target(Client):
    def begin(self, container):
        container.create_sender(self.connection, ADDRESS)


class Copies(Client):
    """Looks at a queue, and takes nothing away."""

    def begin(self, container):
        class Browse(ReceiverOption, LinkOption):
            def apply(self, link):
                link.source.distribution_mode = proton.Terminus.DIST_MODE_COPY

        container.create_receiver(self.connection, ADDRESS, options=Browse())


Container({name.lower(): kind for name, kind in globals().items()}[WHAT]()).run()
