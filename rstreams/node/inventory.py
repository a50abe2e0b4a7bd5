"""The messages that a node has at its start and at its end, in one line of the log each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rstreams._events.table import NODE_DRAINED, NODE_NOT_DRAINED, STORE_OPENED
from rstreams.net.links.draining import Drained
from rstreams.node.address import Address
from rstreams.node.node_store import NodeStore

_MOST_NAMES: Final = 3
"""How many addresses a line names; the others are counted."""


def tell_start(store: NodeStore, addresses: Iterable[Address]) -> None:
    """Log what was in the store, and how long it took to open it; nothing without a store."""
    if store.store is None:
        return
    kept = {address: address.kept for address in addresses}
    unknown = store.recovered - sum(kept.values())
    text = f"{_messages(store.recovered)} in it{_where(kept)}"
    if unknown > 0:
        text += f"; {_messages(unknown)} at addresses that the node does not have so far"
    STORE_OPENED.tell(
        store.store.path, store=store.store.path, seconds=store.opened_in_s, what=text, messages=store.recovered
    )


def tell_end(drained: Drained, addresses: Iterable[Address]) -> None:
    """Log what becomes of the messages of a node that ends: a warning if the drain was not complete."""
    lost, kept = {}, {}
    for address in addresses:
        lost[address], kept[address] = address.left, address.kept
    told = [f"{_messages(sum(lost.values()))} lost with the process{_where(lost)}"] if any(lost.values()) else []
    if any(kept.values()):
        told.append(f"{_messages(sum(kept.values()))} kept in the store{_where(kept)}")
    if drained.given_back:
        told.append(f"{_messages(drained.given_back)} received and not stored: their senders have no outcome")
    if drained.outcome_unknown:
        told.append(f"{_messages(drained.outcome_unknown)} sent and not settled")
    event = NODE_DRAINED if drained.complete else NODE_NOT_DRAINED
    event.tell(
        what="; ".join(told) or "no messages are left",
        kept=sum(kept.values()),
        lost=sum(lost.values()),
        unsettled=drained.outcome_unknown,
    )


def _messages(count: int) -> str:
    return f"{count} message is" if count == 1 else f"{count} messages are"


def _where(counts: dict[Address, int]) -> str:
    """Return the addresses with the most messages, and how many are at the others; "" for no messages."""
    most = sorted(((count, address) for address, count in counts.items() if count), key=lambda each: -each[0])
    places = [f"{count} at {address.kind} {address.name!r:.80}" for count, address in most[:_MOST_NAMES]]
    if others := most[_MOST_NAMES:]:
        count, addresses = sum(count for count, _ in others), len(others)
        places.append(f"{count} at {addresses} other address{'' if addresses == 1 else 'es'}")
    return f" ({', '.join(places)})" if places else ""
