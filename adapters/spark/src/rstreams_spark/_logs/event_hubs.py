"""The partitions of an event hub of Azure, written after its documentation: there was no server to test against.

The hub tells its partitions at its address `$management`, and the time when it was made, which tells it from another
hub of its name. A partition is read at `hub/ConsumerGroups/group/Partitions/number`. The offset of a message here is
its sequence number, which goes up by one. The offset that Event Hubs itself gives is text whose form it does not
promise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rstreams import Connection, Message
from rstreams.errors import Condition, LinkDetached
from rstreams.message import decode_message
from rstreams_spark._logs.logs import Logs, Tail

_NOT_FOUND: Final = 404
_KINDS: Final = "com.microsoft:"


class EventHubLogs(Logs):
    """The partitions of event hubs; see the module's text.

    Attributes:
        management: Where the hub takes questions.
        replies: Where the hub sends its replies.
    """

    offset_annotation = "x-opt-sequence-number"
    management = "$management"
    replies: str | None = management

    def __init__(self, connection: Connection, consumer_group: str) -> None:
        """Ask nothing yet."""
        super().__init__(connection)
        self._group = consumer_group

    async def kind_of(self, address: str) -> str | None:
        """Return "log"."""
        return "log"

    async def tails(self, names: Sequence[str]) -> list[Tail]:
        """Return the partitions of hubs."""
        made = []
        options = {"decode": decode_message, "reply_address": self.replies}
        async with self._connection.requester(self.management, **options) as requester:  # type: ignore[call-overload]
            for name in names:
                hub = await _read(requester, "eventhub", name)
                for partition in () if hub is None else hub["partition_ids"]:
                    part = await _read(requester, "partition", name, partition=partition)
                    if part is not None:
                        made.append(self._tail(name, str(partition), part, str((hub or {}).get("created_at", ""))))
        return made

    def _tail(self, name: str, partition: str, part: Mapping[str, Any], created: str) -> Tail:
        address = f"{name}/ConsumerGroups/{self._group}/Partitions/{partition}"
        last = int(part["last_enqueued_sequence_number"])
        first = last + 1 if part.get("is_partition_empty") else int(part["begin_sequence_number"])
        return Tail(name, int(partition), address, max(first, 0), last + 1, incarnation=created)


async def _read(requester: Any, kind: str, name: str, **more: object) -> Mapping[str, Any] | None:  # noqa: ANN401
    """Return the hub's description of itself or of a partition; None if it is not there.

    Errors: `LinkDetached` with the reason why it does not tell.
    """
    asked = {"operation": "READ", "name": name, "type": f"{_KINDS}{kind}", **more}
    reply: Message = await requester.request(Message(properties=asked))
    status = reply.properties.get("status-code", reply.properties.get("statusCode", 200))
    if status == _NOT_FOUND:
        return None
    if status not in (200, 202) or not isinstance(reply.body, Mapping):
        told = reply.properties.get("status-description", reply.properties.get("statusDescription"))
        raise LinkDetached(Condition.NOT_ALLOWED.value, f"the hub answers {status} about {name!r}: {told}")
    return reply.body
