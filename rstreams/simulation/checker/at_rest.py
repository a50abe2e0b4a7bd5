"""What the checker judges at the end of a history: what was lost, and what stands still."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rstreams.simulation.checker.accounts import (
    DONE,
    FAILED,
    HELD,
    OVER,
    PENDING,
    Arrival,
    Item,
    JudgedAddress,
    JudgedSubscription,
)

Find = Callable[[str, str], None]


def judge_rest(address: JudgedAddress, at: float, faulty: int, find: Find) -> None:
    """Judge an address that has come to rest: nothing was to happen there any more.

    Args:
        address: Which one.
        at: The time.
        faulty: The last place at which a fault was in force.
        find: Is told the kind and the text of what is wrong.
    """
    if not address.copies and not address.subscriptions:
        address.subscriptions[""] = JudgedSubscription("", address, -1)
    wanted, is_full = False, bool(address.ready)
    for subscription in address.subscriptions.values():
        if subscription.ended:
            continue
        wants = [by for by, count in subscription.wants.items() if count > 0]
        ready = address.ready if subscription.ready is None else subscription.ready
        if wants and ready:
            text = f"{ready} items of {subscription} were ready at {at:.15g}, at the end"
            find("stalled", f"{text}, and {wants[0]!r} waited for {subscription.wants[wants[0]]}.")
        wanted = wanted or bool(wants)
        _judge_lost(subscription, at, faulty, find)
    for item in address.items.values():
        if item.outcome is PENDING and (wanted or not is_full):
            text = f"{item.by!r} sent item {item.name!r} to {address} at {item.at:.15g}"
            find("stalled", f"{text}, and was told no outcome until {at:.15g}, the end.")


def _judge_lost(subscription: JudgedSubscription, at: float, faulty: int, find: Find) -> None:
    address = subscription.address
    missing, held = _missing(subscription, at, faulty)
    told = address if subscription.ready is None else subscription
    there = subscription.dropped + address.dropped
    if told.ready is not None:
        there += told.ready + told.unsettled
        if subscription.promise != "at_most_once":
            missing += held
        told.ready = max(0, told.ready - len(missing))  # the subscriptions of an address share what is left
    for arrival, item in missing[: max(0, len(missing) - there)]:
        _tell_lost(subscription, arrival, item, find)


def _tell_lost(subscription: JudgedSubscription, arrival: Arrival | None, item: Item, find: Find) -> None:
    address = subscription.address
    text = f"Item {item.name!r} of {subscription}, sent by {item.by!r} at {item.at:.15g}, "
    if arrival is not None:
        find(
            "lost", f"{text}came to {arrival.by!r} at {arrival.at:.15g}, who {arrival.state}; it is not there any more."
        )
    elif address.killed > item.accepted:
        find("early", f"{text}was accepted, and never came after {address.part or 'its part'!r} was killed.")
    else:
        find("lost", f"{text}was accepted, and never came.")


def _missing(
    subscription: JudgedSubscription, at: float, faulty: int
) -> tuple[list[tuple[Arrival | None, Item]], list[tuple[Arrival | None, Item]]]:
    """Return the items that the subscription is owed and does not have, and those that a member has."""
    arrivals = subscription.arrivals
    newest = _newest(subscription) if "superseded" in subscription.address.drops else {}
    missing: list[tuple[Arrival | None, Item]] = []
    held: list[tuple[Arrival | None, Item]] = []
    for name, item in subscription.address.items.items():
        arrival = arrivals.get(name)
        if arrival is None:
            if item.outcome != "accepted" or not _is_owed(subscription, item):
                continue
        elif arrival.state is DONE or arrival.state is OVER:
            continue
        elif arrival.state is HELD and _is_held(subscription, arrival):
            held.append((arrival, item))
            continue
        elif arrival.state is FAILED and _is_at_its_end(subscription.address, arrival):
            continue
        elif arrival.done and arrival.place <= faulty:
            continue  # who gave it back may have had it from before the fault, and the other one's word counts
        superseded = newest.get(item.key, -1) >= item.first
        if not (superseded or item.over or item.expires <= at or _may_be_lost(subscription, item, arrival, faulty)):
            missing.append((arrival, item))
    return missing, held


def _is_held(subscription: JudgedSubscription, arrival: Arrival) -> bool:
    return arrival.by in subscription.members or not subscription.members.isdisjoint(arrival.others)


def _is_at_its_end(address: JudgedAddress, arrival: Arrival) -> bool:
    """Return whether a failed item does not come again, and is a dead letter if there is a place for them."""
    if not arrival.final and arrival.failed < address.attempts:
        return False
    return address.letters is None or _take_letter(address.letters)


def _may_be_lost(subscription: JudgedSubscription, item: Item, arrival: Arrival | None, faulty: int) -> bool:
    address = subscription.address
    # An outcome, or the item itself, may arrive behind the kill: it was on its way, or waited in its consumer's buffer.
    stored = item.last if arrival is None else min(item.last, arrival.place)
    if not address.durable and address.killed > stored:
        return True
    if subscription.promise != "at_most_once":
        return False
    return arrival is not None or max(faulty, address.killed, subscription.returned) >= item.first


def _take_letter(letters: JudgedAddress) -> bool:
    """Return whether one of the items that are left there may be the dead letter of another address."""
    if not letters.ready:
        return False
    letters.ready -= 1
    return True


def _is_owed(subscription: JudgedSubscription, item: Item) -> bool:
    if subscription.since < 0 or item.first > subscription.since:
        return True
    return subscription.start is not None and item.offset is not None and item.offset[1] >= subscription.start


def _newest(subscription: JudgedSubscription) -> dict[Any, float]:
    """Return for each key the last place at which an item of it that came may have been stored."""
    newest: dict[Any, float] = {}
    for arrival in subscription.arrivals.values():
        item = arrival.item
        if item.key is not None:
            stored = item.accepted if item.accepted >= 0 else math.inf
            newest[item.key] = max(stored, newest.get(item.key, -1))
    return newest
