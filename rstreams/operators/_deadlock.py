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

A stage answers with the questions any one of which would have to come true first, in the methods

    waits_to_ask()   waits_to_send()   waits_to_cancel()   ->   list of (way, object), or None

None says: it may move by itself (a timer, a task, user code, something not known here), or is moving just now. If the
answers, followed through the live stages, never come to a None, then all that could move waits for others of the same
set: nothing in it ever moves again, and that is a `DemandDeadlock`. So one None anywhere means no alarm, and whatever
gives no answers counts as None: an operator that says nothing can only hide a deadlock. Only the last subscriber's own
cancel does not count as a way out.

A source needs no demand to end, and its end may be the way out. So only sources count that are known to do nothing
unasked: plain iterators, async iterators, and a link, once it has had time enough to say that it is through.

A group or window that nobody has subscribed to counts as one that may get a subscriber at any time, unless it is
certain that nobody but a concat_map has seen it, which goes on to it when its current stream is through.

To take part an operator whose stage stands between one source and one subscriber and only reacts to their calls needs
its name in `_SIMPLE`. Any other (zip, a dispatcher) gives its stage the methods it can answer; those it leaves out
answer None. A stage that blocks by itself has what `Blocked` asks for, and a `_lookout`.
It looks when it has become blocked, in a turn of its own (`call_later(0, ...)`), when all who were in the middle of
something are through; and while it stays blocked now and then, for what others wait for may change without a word to
it. It never looks for each item.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeGuard, cast

from rstreams._emission import IteratorEmission
from rstreams._runs import counts_of
from rstreams._subscription import ENDED
from rstreams.errors import DemandDeadlock
from rstreams.operators._jobs import Jobs
from rstreams.operators._merging import Inner, Merging
from rstreams.operators._one_inner import Inner as CurrentInner
from rstreams.operators._stage import Stage
from rstreams.operators.concat_map import _ConcatMap
from rstreams.operators.map import _Map
from rstreams.sinks import Sink

Way: TypeAlias = Literal["ask", "send", "cancel"]
ASK: Final = "ask"
SEND: Final = "send"
CANCEL: Final = "cancel"

Answer: TypeAlias = "list[tuple[Way, object]] | None"

# Operators whose stage asks its one source only when its one subscriber asks or an item has come, sends only when its
# source has sent, and cancels only on one of these. Nothing with a timer, a task or a second source.
_SIMPLE_NAMES: Final = """
    _extreme _settled average buffer_count checkpoint concat count dematerialize distinct distinct_until_changed
    do_finally do_on_cancel do_on_complete do_on_error do_on_next do_on_request do_on_subscribe filter
    ignore_elements limit_rate log map materialize name on_error_complete on_error_map on_error_resume on_error_return
    reduce repeat retry scan single skip skip_last skip_while switch_if_empty take take_last take_while to_dict to_set
"""
_SIMPLE: Final = frozenset(f"rstreams.operators.{name}" for name in _SIMPLE_NAMES.split())

# Of these, those that show their items to no function of the user's.
_BLIND: Final = frozenset(f"rstreams.operators.{name}" for name in ("checkpoint", "name", "skip", "take"))

# Who only cancels because someone outside says so.
_LAST_SUBSCRIBERS: Final = frozenset({"rstreams.testing.probes"})


class Blocked(Protocol):
    """What a stage that may block tells of itself.

    Attributes:
        part_name: What it has several of: its inner streams, its subscribers.
    """

    part_name: str

    @property
    def describes(self) -> str:
        """Its operator's name."""
        ...

    @property
    def numbers(self) -> tuple[int, int, int]:
        """How many of these there are, the items it keeps, and the most it may keep."""
        ...

    @property
    def stands(self) -> str:
        """The same in words."""
        ...


class Joining(Protocol):
    """What a stage over several sources tells of itself (`_inputs`)."""

    def stands_for(self, blocked: str) -> str:
        """Tell what it has and what it waits for, of an operator that is blocked."""
        ...


def operator_of(stage: object) -> str:
    """Return the name of the operator that a stage belongs to: that of its file."""
    return type(stage).__module__.rpartition(".")[2]


def find_deadlock(blocked: Blocked, *, links_are_through: bool = False) -> DemandDeadlock | None:
    """Return the error if it is certain that `blocked` can never move again, else None.

    Args:
        blocked: Where to begin.
        links_are_through: Whether links that have sent all they were asked for count as having no end to tell.
    """
    due: list[tuple[Way, object]] = [(ASK, blocked)]
    seen = {(ASK, id(blocked))}
    met: list[object] = []
    while due:
        way, stage = due.pop()
        answer = _link_waits(stage) if links_are_through and _is_link(stage) else _ANSWERS[way](stage)
        if answer is None:
            return None
        met.append(stage)
        for question in answer:
            key = question[0], id(question[1])
            if key not in seen:
                seen.add(key)
                due.append(question)
    taker = next((stage for stage in met if _takes_several(stage)), None)
    return None if taker is None else _error(blocked, taker)


def _takes_several(stage: object) -> bool:
    return isinstance(stage, (Merging, _ConcatMap)) or hasattr(stage, "stands_for")


def _error(blocked: Blocked, taker: object) -> DemandDeadlock:
    live, kept, _ = blocked.numbers
    name, takes, part = blocked.describes, operator_of(taker), blocked.part_name
    if isinstance(taker, (Merging, _ConcatMap)):
        streams = len(taker._active) if isinstance(taker, Merging) else 1  # noqa: SLF001 - the stages of one analysis
        text = (
            f"{blocked.stands}; its next {part} waits for {takes}(concurrency={streams}), all of whose streams wait "
            f"for items of that {name}: concurrency must be at least the number of live {part}s"
        )
    else:
        streams = len(cast("Any", taker).inputs)
        text = f"{blocked.stands}; {cast('Joining', taker).stands_for(name)}"
    return DemandDeadlock(text, blocked=name, waits_for=takes, live=live, concurrency=streams, kept=kept)


def keeper_of(part: object, stage: object) -> object | None:
    """Return the concat_map that keeps an inner stream and will subscribe to it, if nobody else has seen it.

    Args:
        part: The inner stream.
        stage: The subscriber that it was sent to.
    """
    while True:
        if _is_concat(stage):
            return stage if any(_bare(item) is part for item, _ in stage._waiting) else None  # noqa: SLF001
        if not isinstance(stage, Stage) or not (type(stage).__module__ in _BLIND or _is_our_map(stage)):
            return None
        stage = stage._downstream  # noqa: SLF001


def _is_our_map(stage: object) -> bool:
    # By it `Stream.group_by` and its like make streams of what their operators emit.
    made_by: str = getattr(stage._function, "__module__", "") if isinstance(stage, _Map) else ""  # noqa: SLF001
    return made_by.partition(".stream")[0] == "rstreams" and made_by.startswith("rstreams.stream")


def _bare(item: object) -> object:
    return getattr(item, "_source", item)


def _waits_to_ask(stage: object) -> Answer:
    if isinstance(stage, (Inner, CurrentInner)):
        return [(SEND, _outer(stage))]
    if isinstance(stage, Merging) or _is_concat(stage):
        return _moves(stage)
    if isinstance(stage, Jobs):
        return None if stage._jobs else [(ASK, stage._downstream)]  # noqa: SLF001
    if _is_simple(stage):
        return [(ASK, stage._downstream)]  # noqa: SLF001
    return _own(stage, "waits_to_ask")


def _waits_to_send(stage: object) -> Answer:
    if isinstance(stage, Merging) or _is_concat(stage):
        return _moves(stage)
    if isinstance(stage, Jobs):
        upstream = stage._upstream  # noqa: SLF001
        return None if stage._jobs else [(SEND, upstream), (ASK, stage)]  # noqa: SLF001
    if _is_simple(stage):
        return [(SEND, stage._upstream), (ASK, stage)]  # noqa: SLF001
    if isinstance(stage, IteratorEmission) or type(stage).__module__ == "rstreams.sources.from_async_iterable":
        return _iterator_waits(stage)
    return _own(stage, "waits_to_send")


def _waits_to_cancel(stage: object) -> Answer:
    if isinstance(stage, Sink) or type(stage).__module__ in _LAST_SUBSCRIBERS:
        return []
    if isinstance(stage, (Inner, CurrentInner)):
        return [(SEND, _outer(stage))]
    if isinstance(stage, Merging) or _is_concat(stage):
        return _moves(stage)
    if isinstance(stage, Jobs):
        return None if stage._jobs else [(CANCEL, stage._downstream)]  # noqa: SLF001
    if _is_simple(stage):
        return [(CANCEL, stage._downstream)]  # noqa: SLF001
    return _own(stage, "waits_to_cancel")


_ANSWERS: Final[dict[Way, Callable[[object], Answer]]] = {
    ASK: _waits_to_ask,
    SEND: _waits_to_send,
    CANCEL: _waits_to_cancel,
}


def _outer(inner: Inner[Any, Any] | CurrentInner[Any, Any]) -> object:
    return inner._merging if isinstance(inner, Inner) else inner._stage  # noqa: SLF001


def _moves(stage: object) -> Answer:
    """Tell what must happen before a stage with inner streams does anything at all."""
    if isinstance(stage, Merging):
        return _merging_moves(stage)
    return _concat_moves(stage) if _is_concat(stage) else None


def _merging_moves(merging: Merging[Any, Any]) -> Answer:
    if merging._draining or merging._next_turn is not None or merging.suspended:  # noqa: SLF001
        return None
    if merging._demand and merging._ready:  # noqa: SLF001
        return None
    waits: list[tuple[Way, object]] = [
        (SEND, inner.upstream)
        for inner in merging._active  # noqa: SLF001
        if inner.upstream is not ENDED and not inner.drawn
    ]
    if not merging._outer_complete and merging._upstream is not ENDED:  # noqa: SLF001
        waits.append((SEND, merging._upstream))  # noqa: SLF001
    waits.append((CANCEL if merging._demand else ASK, merging._downstream))  # noqa: SLF001
    return waits


def _concat_moves(stage: _ConcatMap[Any, Any]) -> Answer:
    current = stage._current  # noqa: SLF001
    if stage._advancing or stage.suspended or (current is None and stage._waiting):  # noqa: SLF001
        return None
    waits: list[tuple[Way, object]] = [(CANCEL if stage._demand else ASK, stage._downstream)]  # noqa: SLF001
    if current is not None:
        waits.append((SEND, current.upstream))
    if not stage._outer_complete:  # noqa: SLF001
        waits.append((SEND, stage._upstream))  # noqa: SLF001
    return waits


def _iterator_waits(emission: Any) -> Answer:  # noqa: ANN401 - either of the two
    """It does nothing before it is asked, not even end."""
    if isinstance(emission, IteratorEmission):
        moves = emission._busy or emission._next_turn is not None or emission._handed is not None  # noqa: SLF001
    else:
        moves = emission._wanted is None  # noqa: SLF001 - its task does something, or is about to
    if moves or emission.ended or emission._demand:  # noqa: SLF001
        return None
    return [(ASK, emission._subscriber)]  # noqa: SLF001


def _is_link(stage: object) -> bool:
    return type(stage).__module__ == "rstreams.protocol.receiver"


def _link_waits(link: Any) -> Answer:  # noqa: ANN401 - one of another layer
    counts = counts_of(link)
    if counts is None or counts.outstanding or counts.buffered:
        return None
    return [(ASK, link._subscriber)]  # noqa: SLF001


def _is_concat(stage: object) -> TypeGuard[_ConcatMap[Any, Any]]:
    # switch_map is another thing: the next outer item ends its current stream.
    return isinstance(stage, _ConcatMap)


def _is_simple(stage: object) -> TypeGuard[Stage[Any, Any]]:
    if not isinstance(stage, Stage) or type(stage).__module__ not in _SIMPLE:
        return False
    return getattr(stage, "_next_turn", None) is None and not getattr(stage, "_looping", False)


def _own(stage: object, method: str) -> Answer:
    answer: Callable[[], Answer] | None = getattr(stage, method, None)
    return None if answer is None else answer()
