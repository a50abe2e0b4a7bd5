"""The sink's connections: one for each peer in an executor process, kept from task to task.

Spark makes new writers for every batch but keeps its Python workers. Therefore connections live in this module. Spark
ends a worker that has been idle for a minute, and with it its connections.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from rstreams import blocking
from rstreams.errors import ConnectionClosed, TransportError

if TYPE_CHECKING:
    from rstreams_spark._options import Peer
    from rstreams_spark._rows import RowPublisher

_open: dict[str, tuple[blocking.BlockingConnection, ExitStack]] = {}


def publish(peer: Peer, address: str, rows: RowPublisher) -> None:
    """Send rows within the credit that the receiver gives, and wait until it has settled all.

    Errors: Those of `Connection.publish`; `rows` then has the outcome of each row, as far as it is known.
    Context: The task's main thread; blocks for credit and outcomes, without limit.
    """
    kept = peer.url in _open
    try:
        _connection(peer).publish(address, rows)
    except (TransportError, ConnectionClosed):
        _forget(peer)
        if not kept or rows.begun:
            raise
        # The kept connection had failed between two tasks; no row has been sent.
        _connection(peer).publish(address, rows)


def _connection(peer: Peer) -> blocking.BlockingConnection:
    kept = _open.get(peer.url)
    if kept is None:
        stack = ExitStack()
        kept = _open[peer.url] = stack.enter_context(blocking.connect(peer.url)), stack
    return kept[0]


def _forget(peer: Peer) -> None:
    kept = _open.pop(peer.url, None)
    if kept is not None:
        kept[1].close()
