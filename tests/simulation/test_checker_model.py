"""Histories of a system that keeps its promises are clean; a change of one thing is found."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from rstreams.simulation.checker import check
from tests.simulation.model import Model

Events = list[dict[str, Any]]
SEEDS = range(12)


def kinds(events: Events) -> Counter[str]:
    return Counter(finding.kind for finding in check(events))


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("rough", [False, True])
def test_a_system_that_keeps_its_promises_is_clean(*, rough: bool, copies: bool) -> None:
    for seed in range(50):
        events = Model(seed, rough=rough, copies=copies).run(80)
        assert check(events) == []


def places(events: Events, name: str) -> list[int]:
    return [at for at, event in enumerate(events) if event["event"] == name and event.get("address") == "a"]


def first_outcome(events: Events, at: int) -> bool:
    """Return whether the item of an event was sent and got once only, and nothing else was told of it but that."""
    told = Counter(each["event"] for each in events if each.get("item") == events[at]["item"])
    return told <= Counter(["sent", "accepted", "got", "done", "confirmed"])


def lose(events: Events, at: int) -> Events:
    return [each for each in events if each.get("item") != events[at]["item"] or each["event"] in ("sent", "accepted")]


def double(events: Events, at: int) -> Events:
    return [*events[:-2], {**events[at], "at": events[-1]["at"]}, *events[-2:]]


def tell_again(events: Events, at: int) -> Events:
    return [*events[: at + 1], events[at], *events[at + 1 :]]


def invent(events: Events, at: int) -> Events:
    return [*events[:at], {**events[at], "item": "nobody's"}, *events[at:]]


def leave_out(events: Events, at: int) -> Events:
    return [*events[:at], *events[at + 1 :]]


CHANGES: list[tuple[str, str, Callable[[Events, int], Events]]] = [
    ("lost", "got", lose),
    ("doubled", "got", double),
    ("unexpected", "got", invent),
    ("unexpected", "sent", leave_out),
    ("unexpected", "got", leave_out),
    ("lost", "done", leave_out),
    ("stalled", "accepted", leave_out),
    ("twice", "accepted", tell_again),
    ("twice", "done", tell_again),
    ("unexpected", "accepted", invent),
]


@pytest.mark.parametrize("rough", [False, True])
@pytest.mark.parametrize(("kind", "name", "change"), CHANGES)
def test_one_change_is_found(kind: str, name: str, change: Callable[[Events, int], Events], *, rough: bool) -> None:
    for seed in SEEDS:
        events = Model(seed, rough=rough, copies=False).run(80)
        at = random.Random(seed).choice(  # noqa: S311 - a test
            [at for at in places(events, name) if first_outcome(events, at)]
        )
        if change is double and rough:
            proof = {"event": "confirmed", "by": events[at]["by"], "address": "a", "item": events[at]["item"]}
            events = [*events[:-2], {"at": events[-1]["at"], **proof}, *events[-2:]]
            if any(each["event"] in ("killed", "fault") for each in events[: at + 1]):
                continue  # it may be there twice, if it was on its way then
        found = kinds(change(events, at))
        assert kind in found or (kind == "lost" and "early" in found)


def test_two_first_arrivals_that_change_places_are_found() -> None:
    changed = 0
    for seed in SEEDS:
        events = Model(seed, rough=False, copies=True).run(80)
        sent = {each["item"]: (each["by"], at) for at, each in enumerate(events) if each["event"] == "sent"}
        arrivals: dict[int, int] = {}
        for at in places(events, "got"):
            if events[at]["by"] == "c":
                arrivals.setdefault(events[at]["item"], at)
        for one, other in pairwise(arrivals):
            if sent[one][0] == sent[other][0] and sent[other][1] < arrivals[one]:
                changed += 1
                assert "reordered" in kinds([_exchanged(event, one, other) for event in events])
                break
    assert changed > len(SEEDS) // 2


def _exchanged(event: dict[str, Any], one: int, other: int) -> dict[str, Any]:
    if event.get("by") != "c" or event.get("item") not in (one, other):
        return event
    return {**event, "item": other if event["item"] == one else one}


def test_items_that_are_left_while_somebody_waits_are_found() -> None:
    for seed in SEEDS:
        events = Model(seed, rough=True, copies=False).run(80)
        events[-2]["ready"] = 1
        wants = {"at": events[-1]["at"], "event": "waiting", "by": "c", "address": "a", "count": 1}
        assert "stalled" in kinds([*events[:-1], wants, events[-1]])
        assert "unfinished" in kinds(events[:-1])
