"""The protocol by which a running pipeline is looked at.

Theory of operation. `explain`, `DemandDeadlock` and the texts of errors ask a stage the same questions:

    label        its name
    counts       how many items have gone through it
    upstreams    the subscriptions that its items come from
    downstream   its subscriber
    waits_for    anything else that it waits for, in words
    stall        why it asks its source for no more
    waits_to     the events that must happen before it can move
    keeper_of    the stage that keeps a stream which was sent to it
    takes        the purpose for which it takes several streams

Each question has a default that says as little as possible. A stage answers only the questions that it can answer. The
analysis knows no stage by its class, its file or its module. A subscription of other libraries, which is not a
`Scannable`, has no counts and no answers.

A publisher remembers its runs by weak references. All of this costs nothing while items flow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, Protocol, TypeAlias
from weakref import ref

from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Subscription

_MANY: Final = 16

Way: TypeAlias = Literal["ask", "send", "cancel"]
"""The next act of a stage: ask its source for more or cancel it, send its subscriber a signal, or cancel its source."""

ASK: Final = "ask"
SEND: Final = "send"
CANCEL: Final = "cancel"

Waits: TypeAlias = "list[tuple[Way, object]] | None"
"""The acts of others, one of which must happen first. None: the stage may move by itself, or is moving now."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The number of items that have gone through a subscription.

    Attributes:
        requested: How many its subscriber has asked for; `UNBOUNDED` or more is as many as there are.
        delivered: How many its subscriber has received.
        buffered: How many are kept here, waiting for demand or for others.
    """

    requested: int
    delivered: int
    buffered: int = 0

    @property
    def outstanding(self) -> int:
        """Return how many were requested and not delivered."""
        return UNBOUNDED if self.requested >= UNBOUNDED else self.requested - self.delivered


class Blocked(Protocol):
    """The questions that the text of a `DemandDeadlock` asks of a stage that may block."""

    @property
    def part_name(self) -> str:
        """What it has several of: its inner streams, its subscribers."""
        ...

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


class Scannable:
    """A stage or subscription that can be looked at; see the module's text.

    Attributes:
        operator: The name of the operator or source that it belongs to.
        is_caption: Whether it is only a text for the stage above it, as `name` gives.
    """

    __slots__ = ()

    operator: ClassVar[str] = ""
    is_caption: ClassVar[bool] = False

    @property
    def label(self) -> str:
        """What it is called in `explain` and in errors."""
        return self.operator or type(self).__name__

    @property
    def downstream(self) -> object:
        """Its subscriber; None if it does not tell."""
        return None

    @property
    def waits_for(self) -> str:
        """What it waits for besides its sources, as a sentence; "" if it knows of nothing."""
        return ""

    def counts(self) -> Counts | None:
        """Return what has gone through, as it is now; in the middle of a run of items, as it was when that began.

        None: it cannot tell.
        """
        return None

    def upstreams(self) -> Sequence[Subscription]:
        """Return the subscriptions that its items come from."""
        return ()

    def stall(self) -> str | None:
        """Return why it asks its source for no more, in words; None: for its own subscriber's sake, if at all."""
        return None

    def waits_to(self, way: Way) -> Waits:  # noqa: ARG002 - by default there is no answer
        """Return what must happen before it does what `way` says; see `Waits`."""
        return None

    def waits_when_quiet(self, way: Way) -> Waits:
        """Return the same, after so long a silence that a source which has no more items would have said so."""
        return self.waits_to(way)

    def keeper_of(self, part: object) -> object | None:  # noqa: ARG002 - by default there is none
        """Return the stage that keeps `part`, a stream sent here, and will subscribe to it when its turn comes.

        None: others have also seen it and may subscribe at any time, or it is not kept.
        """
        return None

    def takes(self, blocked: Blocked) -> tuple[str, int] | None:  # noqa: ARG002 - by default it takes one
        """Return how it stands, as a reader of several streams that come from `blocked`, and how many these may be.

        None: it does not read several.
        """
        return None


def counts_of(subscription: object) -> Counts | None:
    """Return the counts of a subscription, or None if it has none to tell."""
    return subscription.counts() if isinstance(subscription, Scannable) else None


def label_of(subscription: object) -> str:
    """Return what a subscription is called."""
    return subscription.label if isinstance(subscription, Scannable) else type(subscription).__name__


def stall_of(subscription: object) -> str:
    """Return why nobody asks `subscription` for more, in words; "" if that is not known.

    A stage that has had all it asked for waits for its own subscriber: that one is asked then.
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


def keeper_of(part: object, subscriber: object) -> object | None:
    """Return the stage that keeps `part`, which was sent to `subscriber`; see `Scannable.keeper_of`."""
    return subscriber.keeper_of(part) if isinstance(subscriber, Scannable) else None


class Watched:
    """A publisher that knows its runs."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: list[ref[Any]] = []

    def runs(self) -> list[Any]:
        """Return the subscriptions that have not been forgotten by all who had to do with them; some may have ended."""
        return [subscription for run in self._runs if (subscription := run()) is not None]

    def _begins(self, subscription: object) -> None:
        """Remember a subscription for as long as it lives."""
        runs = self._runs
        if len(runs) >= _MANY and not len(runs) & (len(runs) - 1):  # at 16, 32, 64...
            runs[:] = [run for run in runs if run() is not None]
        runs.append(ref(subscription))
