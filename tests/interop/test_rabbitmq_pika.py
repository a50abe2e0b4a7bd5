"""Messages between pika and rstreams at RabbitMQ 4."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest
import trio

import rstreams
from rstreams import Stream
from rstreams.message import Message
from tests.interop.processes import installed, took_part
from tests.interop.rabbitmq import RabbitMQ

pytestmark = pytest.mark.broker

PINS: Final = Path(__file__).parents[2] / "tools" / "interop" / "pika.txt"

SEND: Final = """
import sys, pika
channel = pika.BlockingConnection(pika.URLParameters(sys.argv[1])).channel()
channel.basic_publish("", "jobs", b"wash", pika.BasicProperties(
    content_type="text/plain", content_encoding="gzip", delivery_mode=2, priority=3, correlation_id="A-1",
    message_id="urn:uuid:550e8400-e29b-41d4-a716-446655440000", reply_to="answers", expiration="60000",
    timestamp=1700000000, type="job", app_id="shop", user_id="guest",
    headers={"shop": 7, "x-shop": 8, "list": [1], "table": {"a": 1}},
))
"""

RECEIVE: Final = """
import json, sys, pika
channel = pika.BlockingConnection(pika.URLParameters(sys.argv[1])).channel()
found = []
while True:
    method, properties, body = channel.basic_get("jobs", auto_ack=True)
    if method is None:
        break
    found.append({**vars(properties), "body": body})
print(json.dumps(found, default=repr))
"""


Pika = Callable[[str, str], Awaitable[str]]


@pytest.fixture(scope="session")
def pika() -> Pika:
    """Return what runs a program with pika against a broker, and returns its output."""
    python = installed("pika", "pika") / "bin" / "python"
    took_part(f"pika {PINS.read_text().rpartition('==')[2].strip()}")

    async def run(program: str, url: str) -> str:
        done = await trio.run_process([python, "-c", program, f"{url}/%2F"], capture_stdout=True)
        return done.stdout.decode()

    return run


async def test_a_message_of_pika_comes_to_rstreams(rabbitmq_4: RabbitMQ, pika: Pika) -> None:
    rabbitmq_4.declare("jobs")
    await pika(SEND, rabbitmq_4.url)
    async with rstreams.connect(rabbitmq_4.url) as connection:
        [job] = await connection.messages("jobs").take(1).to_list()
    assert (job.body, job.content_type, job.content_encoding) == (b"wash", "text/plain", "gzip")
    assert (job.durable, job.priority, job.ttl_s) == (True, 3, 60.0)
    assert (job.correlation_id, job.id) == ("A-1", UUID("550e8400-e29b-41d4-a716-446655440000"))
    assert (job.reply_to is not None, job.group_id, job.user_id) == (True, "shop", b"guest")
    assert job.creation_time == datetime.fromtimestamp(1_700_000_000, UTC)
    assert job.properties == {"shop": 7}
    assert (job.annotations["x-shop"], job.annotations["x-basic-type"]) == (8, "job")


async def test_a_message_of_rstreams_comes_to_pika(rabbitmq_4: RabbitMQ, pika: Pika) -> None:
    rabbitmq_4.declare("jobs")
    sent = Message(
        b"wash", content_type="text/plain", correlation_id="A-1", id=7, ttl_s=60.0, group_id="shop", priority=3,
        creation_time=datetime.fromtimestamp(1_700_000_000, UTC), properties={"shop": 7}, annotations={"x-shop": 8},
        subject="not told",
    )  # fmt: skip
    odd = Message({"wash": 2}, id=UUID("550e8400-e29b-41d4-a716-446655440000"), correlation_id=b"A-1")
    async with rstreams.connect(rabbitmq_4.url) as connection:
        await connection.publish("jobs", Stream.of(sent, odd))
    found: list[dict[str, Any]] = json.loads(await pika(RECEIVE, rabbitmq_4.url))
    first, second = found
    assert (first["body"], first["content_type"], first["correlation_id"]) == ("b'wash'", "text/plain", "A-1")
    assert (first["message_id"], first["expiration"], first["app_id"]) == ("7", "60000", "shop")
    assert (first["priority"], first["timestamp"], first["delivery_mode"]) == (3, 1_700_000_000, 2)
    assert first["headers"] == {"shop": 7, "x-shop": 8}
    assert (second["type"], second["body"][:2]) == ("amqp-1.0", "b'")
    assert second["message_id"] == "urn:uuid:550e8400-e29b-41d4-a716-446655440000"
    assert second["headers"] == {"x-correlation-id": "b'A-1'"}
