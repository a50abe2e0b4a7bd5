"""Following demand backwards: from one that waits to the end that everything waits for.

Theory of operation. There are two questions. "Why is there no room?" goes down from stage to subscriber, because room
comes from there. "Why do no items come?" goes up from subscription to source. A stage may blame itself: the question
ends there. A stage may belong to a larger thing, such as a link or a queue, which goes on with the question by itself
(`Scannable.part`). Stages between are only named.

The places of larger things are noted in the question. If it comes to the same place again, streams wait for each other
in a circle.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from rstreams._core.sight import FAULTS, ITEMS, ROOM, Asked, Scannable, Want, counts_of, label_of
from rstreams.culprits import Culprit, Tells, WaitTree

MOST_STAGES: Final = 100
"""The most stages of one stream that are looked at."""

LINK: Final = "link: "
"""How a link begins in the trail of a question: a circle is told without the links in it."""


def why_no_room(subscriber: object, asked: Asked, want: Want = ROOM) -> WaitTree:
    """Return why `subscriber` takes no more items, or what is wrong behind it."""
    names: list[str] = []
    stage: object = subscriber
    for _ in range(MOST_STAGES):
        if not isinstance(stage, Scannable):
            break
        found = _found(stage, want, names, asked)
        if found is not None:
            return found
        if not stage.is_caption:
            names.append(stage.label)
        stage = stage.downstream
    told = None
    if stage is not None and not isinstance(stage, Scannable):
        names.append(label_of(stage))
        told = stage.culprit() if isinstance(stage, Tells) else None
    if told is not None:
        told = replace(told, name=told.name or asked.who, where=asked.who)
    return _stream(names, "it takes no more items", told)


def why_no_items(subscription: object, asked: Asked, want: Want = ITEMS) -> WaitTree:
    """Return why no items come from `subscription`, or what is wrong there."""
    names: list[str] = []
    stage: object = subscription
    for _ in range(MOST_STAGES):
        if not isinstance(stage, Scannable):
            names.append(label_of(stage))
            return _stream(names, "it does not tell what it waits for")
        found = _found(stage, want, names, asked)
        if found is not None:
            return found
        if not stage.is_caption:
            names.append(stage.label)
        owing = [
            each for each in stage.upstreams() if want == FAULTS or (now := counts_of(each)) is None or now.outstanding
        ]
        if len(owing) != 1:
            break
        stage = owing[0]
    else:
        return _stream(names, "it is too long")
    if owing:
        return _stream(names, "", waits_for=tuple(why_no_items(each, asked, want) for each in owing))
    return _stream(names, "") if want == FAULTS else _at_the_source(stage, names, asked)


def why_run_waits(run: Any, asked: Asked) -> WaitTree:  # noqa: ANN401 - a subscription that may be `Scannable`
    """Return what a run of a stream waits for: its subscriber, if that has all that it requested, or its sources."""
    counts = counts_of(run)
    if counts is not None and not counts.outstanding and isinstance(run, Scannable):
        return why_no_room(run.downstream, asked)
    return why_no_items(run, asked)


def circle(place: str, asked: Asked) -> WaitTree | None:
    """Return the part that says so if the question comes to a place for the second time."""
    if place not in asked.trail:
        return None
    passed = asked.trail[asked.trail.index(place) :]
    names = [each for each in passed if not each.startswith(LINK)]
    if not names:
        return WaitTree("link", place.removeprefix(LINK), "it was asked before")
    first = names.index(min(names))  # the same name, wherever the question came into the circle
    name = " -> ".join([*names[first:], *names[: first + 1]])
    blame = asked.blame("circle", f"streams wait for each other in a circle: {name}", name)
    return WaitTree("peer", place.removeprefix(LINK), "the circle is closed", blame)


def _found(stage: Scannable, want: Want, names: list[str], asked: Asked) -> WaitTree | None:
    """Return where the question ends, or another thing goes on with it; None: at another stage."""
    blame = stage.blame(asked)
    if blame is not None:
        return _stream([*names, stage.label], "", blame)
    part = stage.part(want, asked)
    if part is None or not names:
        return part
    return _stream(names, "", waits_for=(part,))


def _at_the_source(stage: Scannable, names: list[str], asked: Asked) -> WaitTree:
    if stage.upstreams():
        return _stream(names, stage.waits_for or "it asks its source for no items")
    return _stream(names, stage.waits_for or "it has no item", _idle(names[-1], asked))


def _idle(source: str, asked: Asked) -> Culprit:
    sentence = f"{asked.publisher} is idle: its source {source} has no item"
    return asked.blame("publisher_idle", sentence)


def _stream(
    names: list[str], state: str, blame: Culprit | None = None, waits_for: tuple[WaitTree, ...] = ()
) -> WaitTree:
    return WaitTree("stream", " | ".join(names)[:200] or "a stream", state, blame, waits_for)
