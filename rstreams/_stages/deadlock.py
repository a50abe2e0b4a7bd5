"""Cycles of demand that can never move: how they are found and described.

    group_by has 17 live groups. The 17th waits for flat_map to ask for one more. flat_map asks when one of its 16
    streams ends. These are groups; each waits for items or its end. group_by requests no more: it keeps as many items
    as it may, and all of them belong to the 17th group.

    share has two subscribers, and zip reads both: one directly, one through a filter that lets 1 of 1,000 items pass.
    zip waits for the filter, the filter for share, and share for zip: it keeps as many items for the direct one as it
    may.

Theory of operation. A stage is blocked when it may keep no more items and therefore asks for no more. It then calls
`find_deadlock`. The question is always the same: which events must happen before this can move?

    (ASK, stage)     before the stage asks its source for more, or cancels it
    (SEND, stage)    before it sends its subscriber another signal
    (CANCEL, stage)  before it cancels its source

A stage answers in `waits_to`: with a list of questions, any one of which would have to come true first, or with None.

None means that the stage may move by itself (a timer, a task, user code, something not known here), or is moving now.
The answers are followed through the live stages. If they never come to a None, all stages found wait only for each
other. None of them ever moves again, and that is a `DemandDeadlock`. One None anywhere means no alarm. A stage that
gives no answer counts as None: an operator without answers can only hide a deadlock. The last subscriber's own cancel
does not count as a way out.

One rule answers for nearly all stages (`Stage.waits_to`): whatever a stage does, it does inside of a call from one of
its sources or from its subscriber. A timer or a task of its own is the exception: the stage then says that it `moves`.

A source needs no demand to end, and its end may be the way out. Therefore only sources count that are known to do
nothing unasked: plain iterators, async iterators, and a link, after enough time for it to announce its end.

A group or window without a subscriber waits for whoever may subscribe to it. `reach` finds out who that is, by the
references to it: the stages that keep it, nobody at all, or anybody, which counts as None. The same holds for a shared
stream of groups (`share`, `replay`, `distribute`) while somebody has its publisher: the next subscriber may read them.

Some stages have answers of their own, because they block: dispatchers, and those that split a stream. They have the
members of `Blocked`, or an object that has them (`standing`), and a `lookout`. Such a stage looks when it has become
blocked, in a turn of its own (`call_later(0, ...)`), when all stages have finished their present work. While it stays
blocked it looks again from time to time, because the others may change without a signal to it. It never looks for each
item.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from rstreams._core.sight import ASK, CANCEL, Blocked, Scannable, Way
from rstreams.errors import DemandDeadlock


def find_deadlock(blocked: Scannable, *, quiet: bool = False) -> DemandDeadlock | None:
    """Return the error if it is certain that `blocked` can never move again, else None.

    Args:
        blocked: The stage to begin with.
        quiet: Whether a source that has sent all requested items is taken to have no end to announce.
    """
    circle = circle_of(ASK, blocked, quiet=quiet)
    if circle is None or any(_others_may_ask(blocked, *question) for question in circle):
        return None
    met = list({id(stage): stage for _, stage in circle}.values())
    for stage in met:
        takes = stage.takes(blocked)
        if takes is not None:
            return _error(blocked, stage.label, *takes)
    readers = [each.label for each in met[1:] if any(comes_from(source, blocked) for source in each.upstreams())]
    if not readers:
        part = blocked.standing.part_name
        return _error(blocked, "", f"no stage has its {part}s any more, so nothing can read them", 0)
    text = f"these stages wait only for it and for each other: {', '.join(dict.fromkeys(readers))}"
    return _error(blocked, readers[0], text, 0)


def circle_of(way: Way, first: object, *, quiet: bool = False) -> list[tuple[Way, Scannable]] | None:
    """Return the acts that wait only for each other, that of `first` among them; None if anything may go on."""
    due: list[tuple[Way, object]] = [(way, first)]
    seen = {(way, id(first))}
    met: list[tuple[Way, Scannable]] = []
    while due:
        way, stage = due.pop()
        if not isinstance(stage, Scannable):
            return None
        answer = stage.waits_when_quiet(way) if quiet else stage.waits_to(way)
        if answer is None:
            return None
        met.append((way, stage))
        for question in answer:
            key = question[0], id(question[1])
            if key not in seen:
                seen.add(key)
                due.append(question)
    return met


def _others_may_ask(blocked: Scannable, way: Way, stage: Scannable) -> bool:
    """Tell whether further subscribers of `stage` may come, and get parts of `blocked` or what is made of them."""
    return way != CANCEL and stage.others_may_come and _leads_to({id(blocked)}, stage.upstreams())


def comes_from(subscription: object, blocked: Scannable) -> bool:
    """Tell whether items of `subscription` come from a part of `blocked`, through any number of stages."""
    return _leads_to({id(each) for each in blocked.upstreams()}, [subscription], {id(blocked)})


def _leads_to(goals: Collection[int], first: Iterable[object], passed: Collection[int] = ()) -> bool:
    due, seen = list(first), set(passed)
    while due:
        each = due.pop()
        if id(each) in seen:
            continue
        if id(each) in goals:
            return True
        seen.add(id(each))
        if isinstance(each, Scannable):
            due += each.upstreams()
    return False


def _error(blocked: Scannable, waits_for: str, stands: str, streams: int) -> DemandDeadlock:
    standing: Blocked = blocked.standing
    live, kept, most = standing.numbers
    numbers = standing.stands.format(part=standing.part_name, live=live, kept=kept, most=most)
    text = f"{blocked.label} {numbers}; {stands}"
    return DemandDeadlock(text, blocked=blocked.label, waits_for=waits_for, live=live, concurrency=streams, kept=kept)


def takes_too_few(blocked: Scannable, taker: str, streams: int) -> str:
    """Describe a stage whose streams all come from `blocked`, which has more of them than the stage takes at a time."""
    name, part = blocked.label, blocked.standing.part_name
    return (
        f"its next {part} waits for {taker}(concurrency={streams}), all of whose streams wait for items of that "
        f"{name}: concurrency must be at least the number of live {part}s"
    )
