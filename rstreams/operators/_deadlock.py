"""Demand cycles that can never move: found, and given a name, instead of left to hang.

    group_by has 17 live groups. The 17th waits for flat_map to ask for one more. flat_map asks when one of its 16
    streams ends. These are groups; each waits for items or its end. group_by reads no further: it keeps all the
    items it may, and they are of the 17th.

Theory of operation. A stage that finds itself blocked (it may keep no more, so it asks for no more) calls
`find_deadlock`. From there on the question is always "what must happen before this can move?":

    (ASK, stage)     before the stage asks its source for more
    (SEND, stage)    before it sends its subscriber another signal
    (CANCEL, stage)  before it cancels its source

A stage answers with the questions any one of which would have to come true first, in the methods

    waits_to_ask()   waits_to_send()   waits_to_cancel()   ->   list of (way, object), or None

None says: it may move by itself (a timer, a task, user code, something not known here), or is moving just now. If the
answers, followed through the live stages, never come to a None, then all that could move waits for others of the same
set: nothing in it ever moves again, and that is a `DemandDeadlock`. So one None anywhere means no alarm, and whatever
gives no answers counts as None: an operator that says nothing can only hide a deadlock. Only the last subscriber's own
cancel does not count as a way out.

To take part an operator whose stage stands between one source and one subscriber and only reacts to their calls needs
its name in `_SIMPLE`. Any other (zip, a dispatcher) gives its stage the methods it can answer; those it leaves out
answer None. A stage that blocks by itself calls `find_deadlock(self)` and has what `Blocked` asks for.
It looks when it has become blocked, in a turn of its own (`call_later(0, ...)`), when all who were in the middle of
something are through; and while it stays blocked now and then, for what others wait for may change without a word to
it. It never looks for each item.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeGuard, cast

from rstreams.errors import DemandDeadlock
from rstreams.operators._merging import Inner, Merging
from rstreams.operators._one_inner import Inner as CurrentInner
from rstreams.operators._stage import Stage
from rstreams.operators.concat_map import _ConcatMap
from rstreams.sinks import Sink

Way: TypeAlias = Literal["ask", "send", "cancel"]
ASK: Final = "ask"
SEND: Final = "send"
CANCEL: Final = "cancel"

Answer: TypeAlias = "list[tuple[Way, object]] | None"

# Operators whose stage asks its one source only when its one subscriber asks or an item has come, sends only when its
# source has sent, and cancels only on one of these. Nothing with a timer, a task or a second source.
_SIMPLE_NAMES: Final = """
    _extreme _settled average buffer_count checkpoint count dematerialize distinct distinct_until_changed
    do_finally do_on_cancel do_on_complete do_on_error do_on_next do_on_request do_on_subscribe filter
    ignore_elements log map materialize name on_error_complete on_error_map on_error_return reduce scan single
    skip skip_last skip_while switch_if_empty take take_last take_while to_dict to_set
"""
_SIMPLE: Final = frozenset(f"rstreams.operators.{name}" for name in _SIMPLE_NAMES.split())

# Who only cancels because someone outside says so.
_LAST_SUBSCRIBERS: Final = frozenset({"rstreams.testing.probes"})


class Blocked(Protocol):
    """What a stage that may block tells of itself.

    Attributes:
        describes: Its operator's name.
        part_name: What its inner streams are called.
        numbers: Its live inner streams, the items it keeps, and the most it may keep.
    """

    part_name: str

    @property
    def describes(self) -> str: ...

    @property
    def numbers(self) -> tuple[int, int, int]: ...


def operator_of(stage: object) -> str:
    """Return the name of the operator that a stage belongs to: that of its file."""
    return type(stage).__module__.rpartition(".")[2]


def find_deadlock(blocked: Blocked) -> DemandDeadlock | None:
    """Return the error if it is certain that `blocked` can never move again, else None."""
    due: list[tuple[Way, object]] = [(ASK, blocked)]
    seen = {(ASK, id(blocked))}
    met: list[object] = []
    while due:
        way, stage = due.pop()
        answer = _ANSWERS[way](stage)
        if answer is None:
            return None
        met.append(stage)
        for question in answer:
            key = question[0], id(question[1])
            if key not in seen:
                seen.add(key)
                due.append(question)
    taker = next((stage for stage in met if isinstance(stage, (Merging, _ConcatMap))), None)
    return None if taker is None else _error(blocked, taker)


def _error(blocked: Blocked, taker: Merging[Any, Any] | _ConcatMap[Any, Any]) -> DemandDeadlock:
    live, kept, bound = blocked.numbers
    streams = len(taker._active) if isinstance(taker, Merging) else 1  # noqa: SLF001 - the stages of one analysis
    name, takes, part = blocked.describes, operator_of(taker), blocked.part_name
    text = (
        f"{name} has {live} live {part}s and keeps {kept} items for those that are not read, as many as it may "
        f"(prefetch={bound}); its next {part} waits for {takes}(concurrency={streams}), all of whose streams wait for "
        f"items of that {name}: concurrency must be at least the number of live {part}s"
    )
    return DemandDeadlock(text, blocked=name, waits_for=takes, live=live, concurrency=streams, kept=kept)


def _waits_to_ask(stage: object) -> Answer:
    if isinstance(stage, (Inner, CurrentInner)):
        return _inner_waits_to_ask(stage)
    if isinstance(stage, Merging):
        return _merging_waits_to_ask(stage)
    if _is_concat(stage):
        return _concat_waits_to_ask(stage)
    if _is_simple(stage):
        return [(ASK, cast("Stage[Any, Any]", stage)._downstream)]  # noqa: SLF001
    return _own(stage, "waits_to_ask")


def _waits_to_send(stage: object) -> Answer:
    if isinstance(stage, Merging):
        return _merging_waits_to_send(stage)
    if _is_concat(stage):
        return _concat_waits_to_send(stage)
    if _is_simple(stage):
        return [(SEND, cast("Stage[Any, Any]", stage)._upstream)]  # noqa: SLF001
    return _own(stage, "waits_to_send")


def _waits_to_cancel(stage: object) -> Answer:
    if isinstance(stage, Sink) or type(stage).__module__ in _LAST_SUBSCRIBERS:
        return []
    if isinstance(stage, Inner):
        return _ends(stage._merging)  # noqa: SLF001
    if isinstance(stage, CurrentInner):
        stage = stage._stage  # noqa: SLF001
    if isinstance(stage, Merging) or _is_concat(stage):
        return _ends(stage)
    if _is_simple(stage):
        return [(CANCEL, cast("Stage[Any, Any]", stage)._downstream)]  # noqa: SLF001
    return _own(stage, "waits_to_cancel")


_ANSWERS: Final[dict[Way, Callable[[object], Answer]]] = {
    ASK: _waits_to_ask,
    SEND: _waits_to_send,
    CANCEL: _waits_to_cancel,
}


def _inner_waits_to_ask(inner: Inner[Any, Any] | CurrentInner[Any, Any]) -> Answer:
    """It asks for more when what it has is asked for."""
    if isinstance(inner, CurrentInner):
        stage = inner._stage  # noqa: SLF001
        return [(ASK, stage._downstream), *_ends(stage)] if _is_concat(stage) else None  # noqa: SLF001
    merging = inner._merging  # noqa: SLF001
    if _is_busy(merging) or not inner.queue or merging._demand:  # noqa: SLF001
        return None
    return [(ASK, merging._downstream), *_ends(merging)]  # noqa: SLF001


def _merging_waits_to_ask(merging: Merging[Any, Any]) -> Answer:
    """flat_map asks for one more outer item when one of its streams is through, unless it is not full."""
    if _is_busy(merging):
        return None
    if merging._outer_complete or not merging.started or merging._slots or not merging._active:  # noqa: SLF001
        return None
    waits = _ends(merging)
    for inner in merging._active:  # noqa: SLF001
        if inner.queue:
            if merging._demand:  # noqa: SLF001
                return None
            waits.append((ASK, merging._downstream))  # noqa: SLF001
        else:
            waits.append((SEND, inner.upstream))
    return waits


def _merging_waits_to_send(merging: Merging[Any, Any]) -> Answer:
    """It sends what its streams send; there may be one more of them if the source sends."""
    if _is_busy(merging) or (merging._demand and merging._ready):  # noqa: SLF001
        return None
    if not merging._demand:  # noqa: SLF001
        return [(ASK, merging._downstream)]  # noqa: SLF001
    waits: list[tuple[Way, object]] = [(SEND, inner.upstream) for inner in merging._active]  # noqa: SLF001
    return waits if merging._outer_complete else [*waits, (SEND, merging._upstream)]  # noqa: SLF001


def _concat_waits_to_ask(stage: _ConcatMap[Any, Any]) -> Answer:
    """concat_map asks for the next outer item when its current stream is through."""
    current = stage._current  # noqa: SLF001
    if current is None or stage._outer_complete:  # noqa: SLF001
        return None
    if not stage._demand:  # noqa: SLF001
        return [(ASK, stage._downstream)]  # noqa: SLF001
    return [*_ends(stage), (SEND, current.upstream)]


def _concat_waits_to_send(stage: _ConcatMap[Any, Any]) -> Answer:
    current = stage._current  # noqa: SLF001
    if not stage._demand:  # noqa: SLF001
        return [(ASK, stage._downstream)]  # noqa: SLF001
    if stage._advancing or (current is None and stage._waiting):  # noqa: SLF001
        return None
    return [(SEND, stage._upstream if current is None else current.upstream)]  # noqa: SLF001


def _ends(merging: Stage[Any, Any]) -> list[tuple[Way, object]]:
    """Whoever cancels the merged stream cancels all its streams."""
    return [(CANCEL, merging._downstream)]  # noqa: SLF001


def _is_busy(merging: Merging[Any, Any]) -> bool:
    return merging._draining or merging._next_turn is not None  # noqa: SLF001


def _is_concat(stage: object) -> TypeGuard[_ConcatMap[Any, Any]]:
    # switch_map is another thing: the next outer item ends its current stream.
    return isinstance(stage, _ConcatMap)


def _is_simple(stage: object) -> bool:
    return isinstance(stage, Stage) and type(stage).__module__ in _SIMPLE


def _own(stage: object, method: str) -> Answer:
    answer: Callable[[], Answer] | None = getattr(stage, method, None)
    return None if answer is None else answer()
