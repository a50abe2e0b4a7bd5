"""The limits of a node that have an option of `rstreams node`."""

from __future__ import annotations

from typing import Final

LIMITS: Final = {
    "max_connections": "the most open connections",
    "max_message_bytes": "the largest message",
    "max_unsettled": "the most unsettled messages of one consumer",
    "max_unsettled_bytes": "the most bytes of these messages",
    "total_unsettled_bytes": "the most bytes of memory for the unsettled messages of all consumers",
    "max_unfinished_bytes": "the most bytes of the incomplete messages of one connection",
    "total_unfinished_bytes": "the same for all connections together",
    "total_stored_bytes": "the most bytes of messages that queues and multicasts keep in memory",
    "total_links": "the most links of all connections",
}
"""The limits of `Node` that have an option of the command, each with the help text of this option."""
