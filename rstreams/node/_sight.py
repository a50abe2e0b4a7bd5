"""What the addresses of a node wait for, said in sentences that are made of their statistics."""

from __future__ import annotations

from typing import TypeAlias

from rstreams.node.statistics import MulticastStatistics, QueueStatistics, ServedStatistics

Statistics: TypeAlias = QueueStatistics | MulticastStatistics | ServedStatistics


def state_of(name: str, numbers: Statistics) -> str:
    """Return what is stored at an address, and who waits for what."""
    if isinstance(numbers, QueueStatistics):
        return _queue(name, numbers)
    if isinstance(numbers, MulticastStatistics):
        return _multicast(name, numbers)
    return (
        f"served stream {name!r:.80}: {_number(numbers.subscribers, 'subscriber')}, "
        f"{_number(numbers.delivered, 'item')} delivered"
    )


def _queue(name: str, numbers: QueueStatistics) -> str:
    stored = numbers.ready + numbers.delayed + numbers.unsettled + numbers.leaving
    full = " is full" if stored >= numbers.capacity else ""
    text = (
        f"queue {name!r:.80}{full}: {stored} of {numbers.capacity} stored, {numbers.ready} ready, "
        f"{numbers.unsettled} unsettled at {_number(numbers.consumers, 'consumer')}"
    )
    if numbers.delayed:
        text += f", {numbers.delayed} delayed until the next attempt"
    if numbers.leaving:
        text += f", {numbers.leaving} wait for room among the dead letters"
    return text + (_waiting(numbers.producers) if full else "")


def _multicast(name: str, numbers: MulticastStatistics) -> str:
    text = f"multicast {name!r:.80}: {_number(len(numbers.subscribers), 'subscriber')}, {numbers.pending} items pending"
    if numbers.overflow == "drop_oldest" or numbers.credit or not numbers.subscribers:
        return text
    asked = min(each.demand for each in numbers.subscribers)
    return f"{text}; the slowest asks for {_number(asked, 'item')}{_waiting(numbers.producers)}"


def _waiting(producers: int) -> str:
    if not producers:
        return ""
    return f"; {_number(producers, 'producer')} wait{'s' if producers == 1 else ''}"


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
