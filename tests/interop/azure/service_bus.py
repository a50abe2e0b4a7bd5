"""Does one thing with Azure's client for Service Bus, and ends: `service_bus.py PORT WHAT ENTITY`.

Each event is one line of JSON on standard output. It runs in the environment of the client, which is not that of the
tests.
"""

from __future__ import annotations

import json
import sys

from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceiveMode, ServiceBusSubQueue
from azure.servicebus.exceptions import ServiceBusError

PORT, WHAT, ENTITY = sys.argv[1:4]
STRING = f"Endpoint=sb://127.0.0.1:{PORT};SharedAccessKeyName=all;SharedAccessKey=c2VzYW1l;UseDevelopmentEmulator=true;"
"""What an emulator's users have: no TLS, and the port in the endpoint."""


def tell(event, **more):
    print(json.dumps({"event": event, **more}), flush=True)


def failed(event, error):
    tell(event, kind=type(error).__name__, text=str(error))


def next_of(receiver):
    (message,) = receiver.receive_messages(max_message_count=1, max_wait_time=10)
    body = b"".join(message.body)
    tell(
        "message",
        body=body[:20].decode("latin-1"),
        size=len(body),
        count=message.delivery_count,
        id=message.message_id,
        subject=message.subject,
        properties={name.decode(): value for name, value in (message.application_properties or {}).items()},
    )
    return message


def send(client):
    """Text, bytes, and what stands around them; waits for each outcome."""
    with client.get_queue_sender(ENTITY) as sender:
        sender.send_messages(ServiceBusMessage("one", message_id="m-1", subject="hot", application_properties={"n": 1}))
        sender.send_messages(ServiceBusMessage(b"two"))
        sender.send_messages(ServiceBusMessage(b"abc" * 400_000))
    tell("sent")


def batch(client):
    with client.get_queue_sender(ENTITY) as sender:
        messages = sender.create_message_batch()
        for body in ("one", "two"):
            messages.add_message(ServiceBusMessage(body))
        try:
            sender.send_messages(messages)
        except ServiceBusError as error:
            failed("refused", error)
        else:
            tell("sent")


def settle(client):
    """Complete, abandon, dead-letter and defer: one message each, and what was abandoned comes first again."""
    with client.get_queue_receiver(ENTITY) as receiver:
        receiver.complete_message(next_of(receiver))
        tell("completed")
        receiver.abandon_message(next_of(receiver))
        tell("abandoned")
        receiver.dead_letter_message(next_of(receiver), reason="no order", error_description="it has no number")
        tell("dead-lettered")
        receiver.defer_message(next_of(receiver))
        tell("deferred")


def dead_letters(client):
    with client.get_queue_receiver(ENTITY, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
        receiver.complete_message(next_of(receiver))


def delete(client):
    """Receive and delete: nothing is settled."""
    with client.get_queue_receiver(ENTITY, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver:
        for _ in range(3):
            next_of(receiver)


def several(client):
    """Receive several at once, and complete each; then there are no more."""
    with client.get_queue_receiver(ENTITY, prefetch_count=4) as receiver:
        got = 0
        while got < 10:
            for message in receiver.receive_messages(max_message_count=4, max_wait_time=10):
                receiver.complete_message(message)
                got += 1
        tell("got", count=got, more=len(receiver.receive_messages(max_message_count=4, max_wait_time=1)))


def iterate(client):
    """Receive in a loop, by an iterator that ends when nothing has come for a while."""
    with client.get_queue_receiver(ENTITY, max_wait_time=2) as receiver:
        for message in receiver:
            tell("body", body=b"".join(message.body).decode())
            receiver.complete_message(message)


def refused(client):
    for name, open_link in (("receiver", client.get_queue_receiver), ("sender", client.get_queue_sender)):
        try:
            with open_link(ENTITY):
                tell("attached")
        except ServiceBusError as error:
            failed(name, error)


def peek(client):
    """Ask `$management`, which a node is not."""
    with client.get_queue_receiver(ENTITY) as receiver:
        try:
            receiver.peek_messages(timeout=5)
        except ServiceBusError as error:
            failed("peeked", error)


with ServiceBusClient.from_connection_string(STRING, retry_total=0) as all_of_it:
    globals()[WHAT](all_of_it)
