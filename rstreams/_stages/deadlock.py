"""Demand cycles that can never move: found, and given a name, instead of left to hang.

    group_by has 17 live groups. The 17th waits for flat_map to ask for one more. flat_map asks when one of its 16
    streams ends. These are groups; each waits for items or its end. group_by reads no further: it keeps all the
    items it may, and they are of the 17th.

    share has two subscribers, and zip reads both: one directly, one through a filter that lets 1 of 1,000 through.
    zip waits for the filter, the filter for share, and share for zip: it keeps all it may for the direct one.

Theory of operation. A stage that finds itself blocked (it may keep no more, so it asks for no more) calls
`find_deadlock`. From there on the question is always "what must happen before this can move?":

    (ASK, stage)     before the stage asks its source for more, or cancels it
    (SEND, stage)    before it sends its subscriber another signal
    (CANCEL, stage)  before it cancels its source

A stage answers in `waits_to`: with the questions any one of which would have to come true first, or with None.

None says: it may move by itself (a timer, a task, user code, something not known here), or is moving just now. If the
answers, followed through the live stages, never come to a None, then all that could move waits for others of the same
set: nothing in it ever moves again, and that is a `DemandDeadlock`. So one None anywhere means no alarm, and whatever
gives no answers counts as None: an operator that says nothing can only hide a deadlock. Only the last subscriber's own
cancel does not count as a way out.

A source needs no demand to end, and its end may be the way out. So only sources count that are known to do nothing
unasked: plain iterators, async iterators, and a link, once it has had time enough to say that it is through.

A group or window that nobody has subscribed to counts as one that may get a subscriber at any time, unless it is
certain that nobody but a concat_map has seen it, which goes on to it when its current stream is through.

A stage that only reacts says so (`Stage.only_reacts`), and that is its answer. Any other (zip, a dispatcher) gives the
answers that it can; the default is None. A stage that blocks by itself has what `Blocked` asks for, and a `lookout`.
It looks when it has become blocked, in a turn of its own (`call_later(0, ...)`), when all who were in the middle of
something are through; and while it stays blocked now and then, for what others wait for may change without a word to
it. It never looks for each item.
"""

from __future__ import annotations

from rstreams._core.sight import ASK, Blocked, Scannable, Way
from rstreams.errors import DemandDeadlock


def find_deadlock(blocked: Blocked, *, quiet: bool = False) -> DemandDeadlock | None:
    """Return the error if it is certain that `blocked` can never move again, else None.

    Args:
        blocked: Where to begin.
        quiet: Whether sources that have sent all they were asked for count as having no end to tell.
    """
    due: list[tuple[Way, object]] = [(ASK, blocked)]
    seen = {(ASK, id(blocked))}
    met: list[Scannable] = []
    while due:
        way, stage = due.pop()
        if not isinstance(stage, Scannable):
            return None
        answer = stage.waits_when_quiet(way) if quiet else stage.waits_to(way)
        if answer is None:
            return None
        met.append(stage)
        for question in answer:
            key = question[0], id(question[1])
            if key not in seen:
                seen.add(key)
                due.append(question)
    for stage in met:
        takes = stage.takes(blocked)
        if takes is not None:
            return _error(blocked, stage.label, *takes)
    return None


def _error(blocked: Blocked, waits_for: str, stands: str, streams: int) -> DemandDeadlock:
    live, kept, _ = blocked.numbers
    text = f"{blocked.stands}; {stands}"
    return DemandDeadlock(
        text, blocked=blocked.describes, waits_for=waits_for, live=live, concurrency=streams, kept=kept
    )


def takes_too_few(blocked: Blocked, taker: str, streams: int) -> str:
    """Return how a stage stands whose streams are all of `blocked`, which has more than it takes at a time."""
    name, part = blocked.describes, blocked.part_name
    return (
        f"its next {part} waits for {taker}(concurrency={streams}), all of whose streams wait for items of that "
        f"{name}: concurrency must be at least the number of live {part}s"
    )
