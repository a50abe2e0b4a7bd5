"""Does one thing with the AMQP client inside Azure's, `_pyamqp`, and ends: `pyamqp.py PORT WHAT ADDRESS [OPTION...]`.

An option is `user=NAME:PASSWORD`, or `ca=FILE`, which asks for TLS. Each event is one line of JSON on standard output.
It runs in the environment of the client, which is not that of the tests.
"""

from __future__ import annotations

import json
import sys

from azure.servicebus._pyamqp import ReceiveClient, SendClient
from azure.servicebus._pyamqp.authentication import SASLPlainAuth
from azure.servicebus._pyamqp.constants import ReceiverSettleMode
from azure.servicebus._pyamqp.error import AMQPException, RetryPolicy
from azure.servicebus._pyamqp.message import Message
from azure.servicebus._pyamqp.sasl import SASLAnonymousCredential

PORT, WHAT, ADDRESS = sys.argv[1:4]
OPTIONS = dict(option.split("=", 1) for option in sys.argv[4:])


class Anonymous:
    sasl = SASLAnonymousCredential()
    auth_type = None


def connection():
    """Return the options of a client for the connection."""
    auth = SASLPlainAuth(*OPTIONS["user"].split(":")) if "user" in OPTIONS else Anonymous()
    over = (
        {"connection_verify": OPTIONS["ca"], "custom_endpoint_address": f"amqps://127.0.0.1:{PORT}"}
        if "ca" in OPTIONS
        else {"use_tls": False}
    )
    return {"auth": auth, "retry_policy": RetryPolicy(retry_total=0), "idle_timeout": 10, **over}


def host():
    return "127.0.0.1" if "ca" in OPTIONS else f"127.0.0.1:{PORT}"


def tell(event, **more):
    print(json.dumps({"event": event, **more}), flush=True)


def failed(event, error):
    condition = getattr(error.condition, "value", error.condition)
    condition = condition.decode() if isinstance(condition, bytes) else condition
    description = getattr(error, "description", None)
    description = description.decode() if isinstance(description, bytes) else description
    tell(event, kind=type(error).__name__, condition=str(condition), description=description)


def body_of(message):
    return message.value if message.data is None else b"".join(message.data).decode("latin-1")


def attached(client):
    """Open a client, and wait until it may send or receive."""
    client.open()
    while not client.client_ready():
        client.do_work()
    return client


def receiver(**options):
    return ReceiveClient(host(), ADDRESS, **connection(), **options)


def sender(**options):
    return SendClient(host(), ADDRESS, **connection(), **options)


def send():
    client = attached(sender())
    for number in range(20):
        client.send_message(Message(data=[b"%d" % number]), timeout=10)
        tell("sent", number=number)
    client.close()


def overfill():
    """Send to a queue that gets full."""
    client = attached(sender())
    try:
        for number in range(20):
            client.send_message(Message(data=[b"%d" % number]), timeout=10)
            tell("sent", number=number)
    except AMQPException as error:
        failed("failed", error)


def bodies():
    """Each kind of body."""
    client = attached(sender())
    for message in (
        Message(value="text"),
        Message(value=[1, "two"]),
        Message(data=[b"da", b"ta"]),
        Message(sequence=[[1], [2]]),
    ):
        client.send_message(message, timeout=10)
    client.close()


def large():
    client = attached(sender(max_message_size=2**22))
    client.send_message(Message(data=[b"abc" * 1_000_000]), timeout=20)
    tell("sent")
    client.close()


def credit():
    """Receive five of an endless stream, and no more; then three."""
    client = attached(receiver(link_credit=5))
    got = client.receive_message_batch(max_batch_size=5, timeout=10)
    tell("first", bodies=[body_of(each) for each in got])
    tell("more", bodies=[body_of(each) for each in client.receive_message_batch(max_batch_size=3, timeout=10)])
    client.close()


def receive_large():
    client = attached(receiver(link_credit=1, max_message_size=2**22))
    (message,) = client.receive_message_batch(max_batch_size=1, timeout=20)
    tell("message", size=len(body_of(message)))
    client.close()


def to_the_end():
    """Receive until the peer detaches."""
    client = attached(receiver(link_credit=100, receive_settle_mode=ReceiverSettleMode.First))
    bodies = []
    try:
        while True:
            client.receive_message_batch(on_message_received=lambda message: bodies.append(body_of(message)), timeout=2)
    except AMQPException as error:  # what came with the detach it would not return
        tell("bodies", bodies=bodies)
        failed("end", error)
    client.close()


def refused():
    for name, make in (("receiver", receiver), ("sender", sender)):
        try:
            attached(make())
        except AMQPException as error:
            failed(name, error)


def login():
    """Open the connection only."""
    try:
        attached(sender()).close()
        tell("opened")
    except (AMQPException, ValueError) as error:
        tell("failed", kind=type(error).__name__, text=str(error))


globals()[WHAT]()
