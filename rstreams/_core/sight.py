"""The questions that `explain` and others ask the stages of a running pipeline.

Theory of operation. `explain`, `DemandDeadlock` and the texts of errors ask a stage the same questions:

    label            its name
    counts           how many items have gone through it
    upstreams        the subscriptions that its items come from
    downstream       its subscriber
    waits_for        anything else that it waits for, in words
    stall            why it asks its source for no more
    waits_to         the events that must happen before it can move
    others_may_come  whether it may get more subscribers
    standing         what it keeps, if it may block
    takes            the purpose for which it takes several streams
    blame            the reason of its own why others wait for it
    part             the larger thing that it belongs to, with what that waits for, as a tree

Each question has a default that says as little as possible. A stage answers only the questions that it can answer. The
analysis does not know the class, file or module of any stage. A subscription of another library, which is not a
`Scannable`, has no counts and no answers.

A publisher remembers its runs by weak references. All of this costs nothing while items flow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final, Generic, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable
from weakref import ref

from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Subscription
from rstreams.culprits import Culprit, WaitTree

S = TypeVar("S")

_MANY: Final = 16

_LONG_S: Final = 10.0
"""From how many seconds on a time is told without a fraction."""

Way: TypeAlias = Literal["ask", "send", "cancel"]
"""The next act of a stage: ask its source for more or cancel it, send its subscriber a signal, or cancel its source."""

ASK: Final = "ask"
SEND: Final = "send"
CANCEL: Final = "cancel"

Waits: TypeAlias = "list[tuple[Way, object]] | None"
"""The acts of others, one of which must happen first. None: the stage may move by itself, or is moving now."""


Want: TypeAlias = Literal["room", "items", "outcomes", "faults"]
"""What somebody waits for: that more items are taken, that items come, or that those which have come are settled.

"faults" only asks what is wrong at the other side by itself, and not what that waits for.
"""

ROOM: Final = "room"
ITEMS: Final = "items"
OUTCOMES: Final = "outcomes"
FAULTS: Final = "faults"


@dataclass(frozen=True, slots=True)
class Asked:
    """A question on its way from one that waits to what it waits for; see `_core.waits`.

    Attributes:
        who: The name of this process for the sentences: its container id; "" if it has none here.
        now: The time of the question; None if nobody knows it here.
        trail: The places that the question has come through.
    """

    who: str = ""
    now: datetime | None = None
    trail: tuple[str, ...] = ()

    @property
    def consumer(self) -> str:
        """This process as a consumer, in a sentence."""
        return f"consumer {self.who!r:.120}" if self.who else "the consumer"

    @property
    def publisher(self) -> str:
        """This process as a publisher, in a sentence."""
        return f"publisher {self.who!r:.120}" if self.who else "the publisher"

    def blame(self, kind: str, sentence: str, name: str | None = None, for_s: float | None = None) -> Culprit:
        """Return a culprit that this process tells of.

        Args:
            kind: As for `Culprit`.
            sentence: As for `Culprit`; the time is added, if it is known.
            name: As for `Culprit`; None: this process.
            for_s: For how long it has been so, in seconds; None if that is not known.
        """
        name = self.who if name is None else name
        if for_s is None or self.now is None:
            return Culprit(kind, sentence, name, where=self.who)
        since, digits = self.now - timedelta(seconds=for_s), 0 if for_s >= _LONG_S else 1
        told = f" for {for_s:.{digits}f} s (since {since.astimezone():%H:%M:%S})" if for_s >= 1 else ""
        return Culprit(kind, sentence + told, name, since, self.who)

    def through(self, place: str) -> Asked:
        """Return the question behind a place."""
        return replace(self, trail=(*self.trail, place))


@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers of items that have gone through a subscription.

    Attributes:
        requested: The items that its subscriber has requested; `UNBOUNDED` or more is without limit.
        delivered: The items that its subscriber has received.
        buffered: The items kept here, which wait for demand or for others.
    """

    requested: int
    delivered: int
    buffered: int = 0

    @property
    def outstanding(self) -> int:
        """The items requested and not delivered."""
        return UNBOUNDED if self.requested >= UNBOUNDED else self.requested - self.delivered


@runtime_checkable
class Blocked(Protocol):
    """The questions about what a stage keeps and may block on; see `Scannable.standing`.

    Attributes:
        part_name: The word for its parts: inner streams, subscribers.
        stands: The numbers as text, with places for `part`, `live`, `kept` and `most`.
    """

    part_name: str
    stands: str

    @property
    def numbers(self) -> tuple[int, int, int]:
        """The number of its parts, of the items it keeps, and the most items it may keep."""
        ...

    @property
    def blocked(self) -> bool:
        """Tell whether it may keep no more items, and therefore requests none."""
        ...

    def disconnect(self, error: BaseException) -> None:
        """End all of it with an error."""
        ...


class Scannable:
    """A stage or subscription that can be looked at; see the text of this module.

    Attributes:
        operator: The name of the operator or source that it belongs to.
        is_caption: Whether it is only a text for the stage above it, as with `name`.
    """

    __slots__ = ()

    operator: ClassVar[str] = ""
    is_caption: ClassVar[bool] = False

    @property
    def label(self) -> str:
        """Its name in `explain` and in errors."""
        return self.operator or type(self).__name__

    @property
    def downstream(self) -> object:
        """Its subscriber; None if it does not tell."""
        return None

    @property
    def waits_for(self) -> str:
        """The reason for waiting besides its sources, as a sentence; "" if it has none."""
        return ""

    def counts(self) -> Counts | None:
        """Return the present counts; in the middle of a run of items, those from the beginning of the run.

        None: it cannot tell.
        """
        return None

    def upstreams(self) -> Sequence[Subscription]:
        """Return the subscriptions that its items come from."""
        return ()

    def stall(self) -> str | None:
        """Return in words why it asks its source for no more; None: only because of its own subscriber, if at all."""
        return None

    def waits_to(self, way: Way) -> Waits:  # noqa: ARG002 - by default there is no answer
        """Return the events that must happen before it does what `way` says; see `Waits`."""
        return None

    def waits_when_quiet(self, way: Way) -> Waits:
        """Return the same after a silence so long that a source without further items would have announced its end."""
        return self.waits_to(way)

    def blame(self, asked: Asked) -> Culprit | None:  # noqa: ARG002 - by default it has no reason of its own
        """Return its own reason why it takes no more items, or sends none; None: it waits for others, if at all."""
        return None

    def part(self, want: Want, asked: Asked) -> WaitTree | None:  # noqa: ARG002 - by default it is only a stage
        """Return the larger thing that it belongs to, such as a link or a queue, with what that waits for.

        None: it is only a stage of a stream, and its neighbours are asked.
        """
        return None

    @property
    def standing(self) -> Any:  # noqa: ANN401 - a `Blocked`, if it may block
        """The object that says what it keeps, if it may block: by default the stage itself."""
        return self

    @property
    def others_may_come(self) -> bool:
        """Whether further subscribers may come, ask for more, and get it."""
        return False

    def takes(self, blocked: Scannable) -> tuple[str, int] | None:  # noqa: ARG002 - by default it takes one
        """Return its state as a reader of several streams that come from `blocked`, and the number of these.

        None: it does not read several streams.
        """
        return None


def counts_of(subscription: object) -> Counts | None:
    """Return the counts of a subscription, or None if it has none."""
    return subscription.counts() if isinstance(subscription, Scannable) else None


def label_of(subscription: object) -> str:
    """Return the name of a subscription."""
    return subscription.label if isinstance(subscription, Scannable) else type(subscription).__name__


def stall_of(subscription: object) -> str:
    """Return in words why `subscription` is asked for no more; "" if that is not known.

    A stage that has received all it requested waits for its own subscriber. The question then goes to that one.
    """
    stage = subscription
    while isinstance(stage, Scannable) and isinstance(stage := stage.downstream, Scannable):
        stall = stage.stall()
        if stall is not None:
            return stall
        counts = stage.counts()
        if counts is None or counts.outstanding:
            return ""
    return ""


class Ear(Scannable, Generic[S]):
    """A subscriber that is a part of a stage, which does what is to be done with the signals.

    Attributes:
        stage: The stage.
    """

    __slots__ = ()

    stage: S

    def waits_to(self, way: Way) -> Waits:  # noqa: ARG002 - the answer is the same for every way
        """Return the events that must happen first: the stage does something."""
        return [(SEND, self.stage)]


class Fluent:
    """The base of a publisher that only gives methods to another one."""

    __slots__ = ()

    _source: Any


class Watched:
    """A publisher that knows its runs."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: list[ref[Any]] = []

    def runs(self) -> list[Any]:
        """Return the subscriptions that still exist; some may have ended."""
        return [subscription for run in self._runs if (subscription := run()) is not None]

    def _begins(self, subscription: object) -> None:
        """Remember a subscription for as long as it lives."""
        runs = self._runs
        if len(runs) >= _MANY and not len(runs) & (len(runs) - 1):  # at 16, 32, 64...
            runs[:] = [run for run in runs if run() is not None]
        runs.append(ref(subscription))
