"""The state of an address in one line, made from its statistics."""

from __future__ import annotations

from rstreams.node.statistics import LogStatistics, MulticastStatistics, QueueStatistics, ServedStatistics


def queue_line(kind: str, name: str, numbers: QueueStatistics, *, full: bool, full_bytes: str, waits: bool) -> str:
    """Return how many messages a queue stores and where, and which producers wait for room.

    Args:
        kind: Its kind.
        name: The address.
        numbers: Its counters.
        full: Whether there is no room for a further message.
        full_bytes: The limit in bytes that says so; empty: none.
        waits: Whether producers wait when it is full.
    """
    stored = numbers.ready + numbers.delayed + numbers.unsettled + numbers.leaving + numbers.unsafe
    text = f"{kind} {name!r:.80}{' is full' if full else ''}: {stored}"
    if numbers.capacity:
        text += f" of {numbers.capacity}"
    text += " stored"
    if full_bytes:
        text += f" ({numbers.size_bytes} bytes, {full_bytes})"
    if numbers.durable:
        text += f", {numbers.on_disk} of them on disk only"
    text += f", {_at_consumers(numbers)}"
    if numbers.unsafe:
        text += f", {numbers.unsafe} on their way to the disk"
    return text + (_waiting(numbers.producers) if full and waits else "")


def _at_consumers(numbers: QueueStatistics) -> str:
    text = f"{numbers.ready} ready, {numbers.unsettled} unsettled at {_number(numbers.consumers, 'consumer')}"
    if numbers.delayed:
        text += f", {numbers.delayed} delayed until the next attempt"
    if numbers.leaving:
        text += f", {numbers.leaving} wait for room among the dead letters"
    return text


def multicast_line(name: str, numbers: MulticastStatistics) -> str:
    """Return how many copies of a multicast wait, and whether the slowest subscriber holds the producers back."""
    text = f"multicast {name!r:.80}: {_number(len(numbers.subscribers), 'subscriber')}, {numbers.pending} items pending"
    if numbers.named:
        away = sum(not each.attached for each in numbers.named)
        waiting = _number(sum(each.waiting for each in numbers.named), "item")
        named = _number(len(numbers.named), "named subscription")
        text += f", {named} ({away} away) with {waiting}"
    if numbers.held:
        text += f", {_number(numbers.held, 'item')} held for the next subscriber"
    if numbers.overflow == "drop_oldest" or numbers.credit:
        return text
    if not numbers.subscribers:
        waiting = _waiting(numbers.producers)
        return f"{text}{waiting} for a subscriber" if waiting else text
    asked = min(each.demand for each in numbers.subscribers)
    return f"{text}; the slowest asks for {_number(asked, 'item')}{_waiting(numbers.producers)}"


def served_line(name: str, numbers: ServedStatistics) -> str:
    """Return how many subscribers a served stream has, and how many items they got."""
    away = f" ({numbers.away} away)" if numbers.away else ""
    subscribers = _number(numbers.subscribers, "subscriber")
    return f"served stream {name!r:.80}: {subscribers}{away}, {_number(numbers.delivered, 'item')} delivered"


def log_line(name: str, numbers: LogStatistics) -> str:
    """Return how many messages a log has, who reads it, and how far its groups are behind."""
    messages = sum(each.messages for each in numbers.partitions)
    parts = "" if len(numbers.partitions) == 1 else f" in {len(numbers.partitions)} partitions"
    text = f"log {name!r:.80}: {_number(messages, 'message')}{parts}, {_number(numbers.readers, 'reader')}"
    for group, each in numbers.groups.items():
        members = _number(each.members, "member")
        text += f"; group {group!r:.80}: {members}, {each.lag} behind, {each.unsettled} unsettled"
    return text


def _waiting(producers: int) -> str:
    if not producers:
        return ""
    return f"; {_number(producers, 'producer')} wait{'s' if producers == 1 else ''}"


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
