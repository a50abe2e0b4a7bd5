"""The judge of a history: takes its events one by one, and tells what is wrong."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from itertools import starmap
from typing import Any, Final

from rstreams.simulation.checker.accounts import (
    DONE,
    DROPS,
    FAILED,
    HELD,
    KILLED,
    OVER,
    PENDING,
    PROMISES,
    RETURNED,
    Arrival,
    Finding,
    HistoryError,
    Item,
    JudgedAddress,
    JudgedSubscription,
    Told,
    one_of,
)
from rstreams.simulation.checker.at_rest import judge_rest
from rstreams.simulation.checker.offsets import Offsets


class Checker:
    """Judges a history event by event.

    Attributes:
        findings: What is wrong so far.
        events: How many events came.
    """

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.events = 0
        self._at = 0.0
        self._patience = math.inf
        self._ended = False
        self._addresses: dict[str, JudgedAddress] = {}
        self._faults: set[str] = set()
        self._healed, self._healed_at = -1, -math.inf
        self._pending: dict[str, set[Item]] = defaultdict(set)
        self._held: dict[str, set[Arrival]] = defaultdict(set)
        self._of: dict[str, dict[JudgedSubscription, None]] = defaultdict(dict)

    def take(self, event: Told) -> None:
        """Judge the next event.

        Errors: `HistoryError` if it is not as it must be.
        """
        self.events += 1
        try:
            self._at = event["at"] + 0
            _HANDLERS[event["event"]](self, event)
        except (KeyError, TypeError, AttributeError, HistoryError) as error:
            msg = f"event {self.events} {self._mistake(event, error)}"
            raise HistoryError(msg) from error

    def _mistake(self, event: Any, error: Exception) -> str:  # noqa: ANN401 - anything
        if not isinstance(event, Mapping):
            return "is no object"
        name = event.get("event")
        if isinstance(error, KeyError):
            missing = error.args[0]
            return f"is {name!r}, which is no event" if missing == name else f"({name}) has no {missing!r}"
        return f"({name}): {error}"

    def end(self) -> list[Finding]:
        """Judge what can be judged only now, and return all that is wrong."""
        if not self._ended:
            self._find("unfinished", "The history has no `end`: whether something was lost cannot be told.")
        return self.findings

    # what the rules need

    def _find(self, kind: str, text: str) -> None:
        self.findings.append(Finding(kind, text))

    def _address(self, event: Told) -> JudgedAddress:
        address = self._addresses.get(event["address"])
        if address is None:
            msg = f"address {event['address']!r} was not told before"
            raise HistoryError(msg)
        return address

    def _subscription(self, event: Told) -> JudgedSubscription:
        address = self._addresses.get(event["address"]) or self._address(event)
        by = event.get("by", "")
        name = event.get("subscription", by if address.copies else "")
        subscription = address.subscriptions.get(name)
        if subscription is None:
            since = self.events if address.copies else -1
            subscription = address.subscriptions[name] = JudgedSubscription(name, address, since)
        return subscription

    def _joined(self, event: Told) -> JudgedSubscription:
        """Return the subscription of an event that shows its consumer there."""
        subscription, by = self._subscription(event), event["by"]
        if by not in subscription.members:
            subscription.join(by)
            self._of[by][subscription] = None
        return subscription

    @staticmethod
    def _offsets(subscription: JudgedSubscription) -> Offsets:
        if subscription.offsets is None:
            subscription.offsets = Offsets(subscription)
        offsets: Offsets = subscription.offsets
        return offsets

    def _last_fault(self) -> int:
        return self.events if self._faults else self._healed

    def _cause(self, address: JudgedAddress) -> int:
        return max(self._last_fault(), self.events if address.down else address.killed)

    # the run

    def _on_run(self, event: Told) -> None:
        self._patience = event.get("patience", math.inf)

    def _on_address(self, event: Told) -> None:
        self._addresses[event["address"]] = JudgedAddress(event)
        for source in self._addresses.values():
            target = self._addresses.get(source.dead_letters or "")
            if target is not None and source.letters is not target:
                source.letters = target
                target.sources.append(source)

    def _on_killed(self, event: Told) -> None:
        part = event["part"]
        for address in self._addresses.values():
            if address.part is None or _within(address.part, part):
                address.killed = self.events
                address.down = address.part is not None
        for by in [by for by in self._pending if _within(by, part)]:
            for item in self._pending.pop(by):
                item.outcome, item.risky = "unknown", True
        for by in [by for by in self._of if _within(by, part)]:
            for subscription in self._of.pop(by):
                subscription.leave(by, self.events)
                subscription.killed = self.events
            for arrival in self._held.pop(by, ()):
                if by in arrival.others:
                    arrival.others = {*arrival.others} - {by}
                elif arrival.state is HELD:
                    arrival.state = KILLED

    def _on_started(self, event: Told) -> None:
        for address in self._addresses.values():
            if address.part is not None and _within(address.part, event["part"]):
                address.down, address.killed = False, self.events
                self._healed_at = self._at

    def _on_fault(self, event: Told) -> None:
        self._faults.add(event.get("name", ""))

    def _on_healed(self, event: Told) -> None:
        if "name" in event:
            self._faults.discard(event["name"])
        else:
            self._faults.clear()
        self._healed, self._healed_at = self.events, self._at

    def _on_level(self, event: Told) -> None:
        if event["value"] > event["most"]:
            text = (
                f"{event['of']} was {event['value']} at {self._at:.15g}; {event['most']} is the most that is allowed."
            )
            self._find("bound", text)

    # producers

    def _on_sent(self, event: Told) -> None:
        address, name, by = self._address(event), event["item"], event["by"]
        item = address.items.get(name)
        if item is None:
            item = address.items[name] = Item(name, by, self.events, self._at)
            item.key = event.get("key")
            item.expires, item.due = event.get("expires", math.inf), event.get("due", self._at)
        else:
            if item.outcome in (PENDING, "accepted"):
                self._find("unexpected", f"{by!r} sent item {item} to {address} again at {self._at:.15g}.")
            item.last, item.outcome, item.risky = self.events, PENDING, True
        self._pending[by].add(item)

    def _on_outcome(self, event: Told) -> None:
        address, by, outcome = self._address(event), event["by"], event["event"]
        item = address.items.get(event["item"])
        if item is None or item.by != by:
            told = f"{by!r} was told {outcome!r} of item {event['item']!r} of {address} at {self._at:.15g}"
            self._find("unexpected", f"{told}, and had not sent it.")
            return
        if item.outcome is not PENDING:
            told = f"{by!r} was told {outcome!r} of item {item} of {address} at {self._at:.15g}"
            self._find("twice", f"{told}, and had been told {item.outcome!r} before.")
            return
        self._pending[by].discard(item)
        item.outcome = outcome
        item.risky = item.risky or outcome == "unknown" or self._cause(address) >= item.first
        if outcome == "accepted":
            item.accepted = self.events
            if address.processed:
                self._judge_processed(address, item)

    def _judge_processed(self, address: JudgedAddress, item: Item) -> None:
        owed = [each for each in address.subscriptions.values() if each.since < item.first and not each.ended]
        arrivals = [each.arrivals.get(item.name) for each in owed]
        if all(each is not None and (each.processed or each.state is OVER) for each in arrivals) and (
            arrivals or address.copies
        ):
            return
        self._find("early", f"Item {item} of {address} was accepted at {self._at:.15g}, before it was processed.")

    # consumers

    def _on_subscribed(self, event: Told) -> None:
        address = self._address(event)
        is_new = event.get("subscription", event["by"] if address.copies else "") not in address.subscriptions
        subscription = self._joined(event)
        subscription.promise = one_of({"promise": address.promise, **event}, "promise", PROMISES)
        subscription.ended = False
        begin = event.get("from", "next")
        if address.copies and (is_new or "from" in event):
            subscription.again, subscription.again_from = self.events, 0
            if begin == "first":
                subscription.since = -1
            elif begin == "next":
                subscription.since = self.events  # also when it begins again: it has chosen to miss what came before
            else:
                subscription.again_from = begin
                subscription.start = min(begin, begin if subscription.start is None else subscription.start)
        if subscription.offsets is not None:
            subscription.offsets.begin(event["by"])

    def _on_unsubscribed(self, event: Told) -> None:
        subscription, by = self._subscription(event), event["by"]
        subscription.leave(by, self.events)
        self._of[by].pop(subscription, None)
        subscription.ended = event.get("ended", subscription.address.copies and subscription.name == by)

    def _on_waiting(self, event: Told) -> None:
        subscription = self._joined(event)
        if event["count"] and not any(subscription.wants.values()):
            subscription.moved_at = max(subscription.moved_at, self._at)
        subscription.wants[event["by"]] = event["count"]

    def _on_got(self, event: Told) -> None:
        subscription, name, by = self._joined(event), event["item"], event["by"]
        address = subscription.address
        item = address.items.get(name)
        if address.sources:
            item = self._dead_letter(address, item, name, by)
        if item is None:
            self._find("unexpected", f"{by!r} got item {name!r} of {address} at {self._at:.15g}; nobody had sent it.")
            return
        arrival = subscription.arrivals.get(name)
        if is_at := "offset" in event:
            got = self._offsets(subscription).got(event, item, arrival, self.events, self._cause(address))
            self.findings += starmap(Finding, got)
        if arrival is None:
            arrival = subscription.arrivals[name] = Arrival(item)
            self._judge_first(subscription, item, event)
        else:
            self._judge_again(subscription, arrival, event)
            if arrival.state is HELD and arrival.by != by:
                arrival.others = {*arrival.others, arrival.by} - {by}
        if "attempt" in event or arrival.sure_failures:
            self._judge_attempt(subscription, arrival, event)
        arrival.state, arrival.by, arrival.place, arrival.at = HELD, by, self.events, self._at
        self._held[by].add(arrival)
        subscription.moved_at = self._at
        if by in subscription.wants:
            subscription.wants[by] -= 1
        if is_at:
            subscription.offsets.holds(event, arrival)

    def _judge_first(self, subscription: JudgedSubscription, item: Item, event: Told) -> None:
        address, by = subscription.address, event["by"]
        if item.outcome in ("refused", "unsent") and not item.risky:
            why = f"though it was {item.outcome}"
            self._find("unexpected", f"{by!r} got item {item} of {subscription} at {self._at:.15g}, {why}.")
        if self._at < item.due:
            due = f"it was due at {item.due:.15g}"
            self._find("bound", f"{by!r} got item {item} of {subscription} at {self._at:.15g}; {due}.")
        waited = self._at - max(item.due, subscription.moved_at, self._healed_at)
        if waited > self._patience and not self._faults and subscription.wants.get(by, 0) > 0:
            text = f"{by!r} waited for item {item} of {subscription} until {self._at:.15g}"
            self._find("stalled", f"{text}, and nothing moved for {waited:.6g}.")
        if address.order == "none":
            return
        key = (by, item.by, event.get("partition"))
        before = subscription.order.get(key)
        if before is not None and item.last < before.first:
            behind = f"item {before.name!r}, which was sent later"
        elif address.order == "all" and -1 < item.accepted < subscription.highest:
            behind = "another item, which was sent when this one was accepted already"
        else:
            behind = ""
        if behind and not subscription.may_come_late(item, event, self._last_fault(), self._cause(address)):
            self._find("reordered", f"{by!r} got item {item} of {subscription} at {self._at:.15g}, behind {behind}.")
        if before is None or item.first > before.first:
            subscription.order[key] = item
            subscription.highest = max(subscription.highest, item.first)

    def _judge_again(self, subscription: JudgedSubscription, arrival: Arrival, event: Told) -> None:
        address, item, state = subscription.address, arrival.item, arrival.state
        if subscription.again > arrival.place and event.get("offset", math.inf) >= subscription.again_from:
            return
        if subscription.offsets is not None and subscription.offsets.is_again(event, arrival.place):
            return
        cause = max(self._cause(address), subscription.gone.get(arrival.by, -1)) >= arrival.place
        if item.may_be_twice(address.promise, self._cause(address)):
            return
        returned = state in (RETURNED, KILLED) or (state is FAILED and not arrival.final)
        match subscription.promise:
            case "at_least_once":
                legal = not arrival.sure and (returned or cause)
            case "effectively_once":
                legal = returned or (state is HELD and subscription.gone.get(arrival.by, -1) >= arrival.place)
            case _:
                legal = False
        if not legal:
            sure = ", which was certain" if arrival.sure else ""
            text = f"{event['by']!r} got item {item} of {subscription} again at {self._at:.15g}"
            self._find("doubled", f"{text}; at {arrival.at:.15g} it came to {arrival.by!r}, who {state}{sure}.")

    def _judge_attempt(self, subscription: JudgedSubscription, arrival: Arrival, event: Told) -> None:
        most, failed = subscription.address.attempts, arrival.sure_failures
        if arrival.item.may_be_twice(subscription.address.promise):
            failed = 0  # each copy of it has attempts of its own
        attempt = event.get("attempt", failed + 1)
        if attempt > failed and attempt <= most and failed < most:
            return
        text = f"Attempt {attempt} of item {arrival.item} of {subscription} began at {self._at:.15g}, and {failed}"
        if attempt > most or failed >= most:
            self._find("bound", f"{text} had certainly failed; {most} is the most that is allowed.")
        else:
            self._find("back", f"{text} had certainly failed before.")

    def _on_settled(self, event: Told) -> None:
        subscription, by, what = self._subscription(event), event["by"], event["event"]
        arrival = subscription.arrivals.get(event["item"])
        if arrival is not None and arrival.state is HELD and arrival.by == by:
            self._held[by].discard(arrival)
        elif arrival is not None and by in arrival.others:
            arrival.others = {*arrival.others} - {by}
            self._held[by].discard(arrival)
            if what != "done" or arrival.state is not HELD:  # what somebody else tells, or has told since then, counts
                arrival.done |= what == "done"
                arrival.processed |= arrival.done
                return
            arrival.others |= {arrival.by}  # that one may still tell, too
            arrival.by = by
        else:
            text = f"{by!r} told {what!r} of item {event['item']!r} of {subscription} at {self._at:.15g}"
            told = arrival is not None and arrival.by == by and arrival.state in (DONE, FAILED, RETURNED)
            why = f"and had told before that he {arrival.state}" if told and arrival else "and does not have it"
            self._find("twice" if told else "unexpected", f"{text}, {why}.")
            return
        arrival.tell(what, final=event.get("final", False))
        if what != "done":
            subscription.returned = self.events

    def _on_confirmed(self, event: Told) -> None:
        arrival = self._subscription(event).arrivals.get(event["item"])
        if arrival is None:
            text = f"An outcome of item {event['item']!r} of {event['address']!r} was confirmed at {self._at:.15g}"
            self._find("unexpected", f"{text} to {event['by']!r}, and it never came.")
        elif arrival.by != event["by"]:
            return  # it has come again meanwhile, to somebody else
        elif arrival.state is DONE or arrival.state is OVER or (arrival.state is FAILED and arrival.final):
            arrival.sure = True
        elif arrival.state is FAILED:
            arrival.sure_failures += 1

    def _on_committed(self, event: Told) -> None:
        self.findings += starmap(Finding, self._offsets(self._subscription(event)).commit(event))

    def _on_resumed(self, event: Told) -> None:
        self.findings += starmap(Finding, self._offsets(self._subscription(event)).resume(event, self.events))

    # items that leave an address

    def _on_dropped(self, event: Told) -> None:
        address = self._address(event)
        reason = one_of(event, "reason", DROPS)
        item = address.items.get(event["item"]) if "item" in event else None
        if reason not in address.drops:
            what = f"Item {item}" if item else f"{event.get('count', 1)} items"
            self._find("lost", f"{what} of {address} dropped at {self._at:.15g} ({reason}), which nobody allowed.")
        one = self._subscription(event) if "subscription" in event else None
        if item is not None:
            self._leaves(address, item, one)
        elif "item" in event:
            self._find("unexpected", f"Item {event['item']!r} of {address} was dropped, and nobody had sent it.")
        else:
            (one or address).dropped += event["count"]

    def _on_moved(self, event: Told) -> None:
        address, name = self._address(event), event["item"]
        item = address.items.get(name)
        if item is None:
            self._find("unexpected", f"Item {name!r} was moved from {address}, and was never there.")
            return
        self._leaves(address, item, None)
        self._enters(self._address({"address": event["to"]}), item, self._cause(address) >= item.first)

    def _leaves(self, address: JudgedAddress, item: Item, one: JudgedSubscription | None) -> None:
        """Note that an item has left an address, or one subscription of it."""
        item.over = one is None
        for subscription in [one] if one else address.subscriptions.values():
            arrival = subscription.arrivals.get(item.name)
            if arrival is None and one:
                arrival = one.arrivals[item.name] = Arrival(item)
            if arrival is not None:
                if arrival.state is HELD:  # who has it from before may still tell what became of it there
                    arrival.others = {*arrival.others, arrival.by}
                arrival.state = OVER

    def _enters(self, address: JudgedAddress, item: Item, risky: bool) -> Item:  # noqa: FBT001 - a fact
        """Note that an item has come from another address; one that may be stored twice there may come twice."""
        risky = risky or item.risky
        before = address.items.get(item.name)
        if before is not None and not before.over and not (before.risky or risky):
            self._find("doubled", f"Item {item} was moved to {address} at {self._at:.15g}, and was there already.")
        moved = address.items[item.name] = Item(item.name, item.by, self.events, item.at)
        moved.key, moved.outcome, moved.accepted, moved.risky = item.key, "accepted", self.events, risky
        for subscription in address.subscriptions.values():
            subscription.arrivals.pop(item.name, None)
        return moved

    def _dead_letter(self, address: JudgedAddress, known: Item | None, name: Any, by: str) -> Item | None:  # noqa: ANN401
        """Return the item with a name, which may be a dead letter of another address, whose move nobody told."""
        for source in (each for each in address.sources if name in each.items):
            item = source.items[name]
            arrivals = [each.arrivals[name] for each in source.subscriptions.values() if name in each.arrivals]
            failed = sorted((each for each in arrivals if each.state is FAILED), key=lambda each: -each.failed)
            if known is not None and not known.over:
                if source.copies and failed:
                    failed[0].state = OVER  # each subscription has dead letters of its own
                return known
            cause = self._cause(source) >= item.first
            if not (any(each.failed for each in arrivals) or source.drops or cause):
                text = f"{by!r} got item {item} as a dead letter of {source} at {self._at:.15g}"
                self._find("unexpected", f"{text}, though nobody had failed it.")
            if source.copies and failed:
                failed[0].state = OVER
            else:
                self._leaves(source, item, None)
            return self._enters(address, item, cause or source.copies)
        return known

    # the end

    def _on_left(self, event: Told) -> None:
        told = self._subscription(event) if "subscription" in event else self._address(event)
        told.ready, told.unsettled = event.get("ready", 0), event.get("unsettled", 0)

    def _on_end(self, _event: Told) -> None:
        self._ended = True
        down = {address.part for address in self._addresses.values() if address.down}
        for name in sorted(self._faults) + sorted(map(str, down)):
            self._find("unfinished", f"{name!r} was not healed, or not started again: nobody can tell what was lost.")
        if not self._faults:
            for address in (each for each in self._addresses.values() if not each.down):
                judge_rest(address, self._at, self._last_fault(), self._find)


def _within(name: str, part: str) -> bool:
    """Return whether somebody belongs to a part: has its name, or one that begins with it and a slash."""
    return name == part or name.startswith(part + "/")


_TOGETHER: Final = {
    **dict.fromkeys(("accepted", "refused", "unknown", "unsent"), "outcome"),
    **dict.fromkeys(("done", "failed", "released"), "settled"),
}
"""The events that have a handler together."""

_EVENTS: Final = (
    *("run", "address", "subscribed", "unsubscribed", "sent", "got", "confirmed", "dropped", "moved", "committed"),
    *("resumed", "killed", "started", "fault", "healed", "waiting", "level", "left", "end", *_TOGETHER),
)
_HANDLERS: Final[dict[str, Callable[[Checker, Told], None]]] = {
    name: getattr(Checker, f"_on_{_TOGETHER.get(name, name)}") for name in _EVENTS
}
