"""What clients declare: carried out as a whole, or refused with what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rstreams import Connection, Message, Node
from rstreams.message import decode_message
from rstreams.net.rabbitmq_management import rabbitmq_management
from tests.node.managed import managed

DECLARED: list[tuple[str, Any, str]] = [
    ("/queues/q", "text", "the body of a declaration is a map or null, not 'text'"),
    ("/queues/q", {"arguments": ["capacity"]}, "arguments=['capacity']: it must be a map of options and their values"),
    ("/queues/q", {"durable": "yes"}, "durable = 'yes': it must be true or false"),
    ("/queues/q", {"exclusive": True}, "no queues that are exclusive or delete themselves"),
    ("/queues/q", {"priority": 9}, "a queue has no option 'priority'; there are capacity"),
    ("/multicasts/m", {"durable": True}, "durable=True"),
    ("/multicasts/m", {"exclusive": True}, "a multicast has no option 'exclusive'; there are overflow"),
    ("/logs/l", {"durable": True, "retention_items": 5}, "a log has no option 'durable'; there are partitions"),
    ("/latest/l", {"auto_delete": True}, "a latest has no option 'auto_delete'; there are key"),
]


@pytest.mark.parametrize(("path", "body", "words"), DECLARED)
async def test_a_declaration_is_carried_out_as_a_whole_or_refused(path: str, body: Any, words: str) -> None:  # noqa: ANN401
    async with Node() as node, managed(node) as (connection, _):
        async with connection.requester("$management", decode=decode_message) as requester:
            reply = await requester.request(Message(body, subject="PUT", address=path))
        assert (reply.subject, words in reply.body) == ("400", True), reply.body
        assert await requester_sees_nothing(connection)


async def requester_sees_nothing(connection: Connection) -> bool:
    async with connection.management() as management:
        return not await management.addresses()


@pytest.mark.parametrize("has_store", [False, True])
async def test_rabbitmqs_clients_get_a_durable_queue_where_there_is_a_store(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, has_store: bool
) -> None:
    store = tmp_path / "s" if has_store else None
    async with (
        Node(store=store) as node,
        managed(node) as (connection, _),
        rabbitmq_management(connection) as management,
    ):
        for _ in range(2):
            made = await management.declare_queue("work")
            assert made["durable"] is has_store
        assert (await management.queue("work"))["durable"] is has_store
        assert node.statistics().queues["work"].durable is has_store
    told = [each.getMessage() for each in caplog.records if "is declared as durable" in each.getMessage()]
    text = "queue 'work' is declared as durable, and its messages are in memory: the node has no store"
    assert told == ([] if has_store else [text, *told[1:]])
