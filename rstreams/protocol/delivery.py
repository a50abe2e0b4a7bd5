"""Deliveries: their outcomes, and how the end of a claim becomes an outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Generic, Literal, TypeVar

from rstreams._checks.choices import require_flag
from rstreams._checks.refusals import refuse_value
from rstreams._codec import Symbol, encode_value
from rstreams._core.claims import DONE, Claims, Ending, Settles
from rstreams._core.threads import get_ident, refuse_thread
from rstreams.abc import Hold
from rstreams.errors import Condition, ConfigError, DeliveryFailed, condition_of, text_of

T = TypeVar("T")

ERROR_CONDITION: Final = "x-opt-rstreams-error-condition"
"""The annotation of a failed item, and of its dead letter, with the error's AMQP condition."""

ERROR_DESCRIPTION: Final = "x-opt-rstreams-error-description"
"""The annotation of a failed item, and of its dead letter, with the error's type and text."""

MAX_TEXT: Final = 1024
"""The most characters of an error's text that are sent for an item."""

MAX_CONDITION: Final = 255
"""The most characters of a condition that every peer's frame has room for."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a delivery (AMQP 1.0 section 3.4); mostly it is the receiver's.

    Attributes:
        kind: "accepted"; "rejected": invalid, not to be sent again; "released": given back untouched;
            "modified": given back with a mark.
        condition: The reason for a rejection.
        description: Text for people, with `condition`.
        delivery_failed: For modified: a failed attempt, which increases delivery-count.
        undeliverable_here: For modified: not to be sent to this receiver again.
        annotations: For modified: annotations to merge into those of the message.
        refused_here: For rejected: the receiver has not seen the message, because the sender has refused it.
    """

    kind: Literal["accepted", "rejected", "released", "modified"]
    condition: str | None = None
    description: str = ""
    delivery_failed: bool = False
    undeliverable_here: bool = False
    annotations: Mapping[str, Any] = field(default_factory=dict)
    refused_here: bool = False

    def as_error(self, accepted: int = 0) -> DeliveryFailed:
        """Return the exception for a publisher with this outcome; `accepted` items were accepted before."""
        if self.kind == "accepted":
            msg = "an accepted delivery is not a failure"
            raise ValueError(msg)
        return DeliveryFailed(
            self.kind,
            self.condition,
            self.description,
            accepted=accepted,
            delivery_failed=self.delivery_failed,
            undeliverable_here=self.undeliverable_here,
            annotations=self.annotations,
            refused_here=self.refused_here,
        )


ACCEPTED = Outcome("accepted")
RELEASED = Outcome("released")
FAILED = Outcome("modified", delivery_failed=True)


def outcome_of(error: BaseException) -> Outcome:
    """Return the outcome for an item whose processing ended with `error`.

    A `DeliveryFailed` is an outcome from a later part of the line, and goes on unchanged. Any other error counts as a
    failed attempt.
    """
    if not isinstance(error, DeliveryFailed):
        return FAILED
    if error.outcome == "rejected":
        condition = error.condition if is_condition(error.condition) else Condition.INTERNAL_ERROR.value
        return Outcome("rejected", condition, str(error.description))
    if error.outcome == "released":
        return RELEASED
    return Outcome(
        "modified",
        delivery_failed=error.delivery_failed,
        undeliverable_here=error.undeliverable_here,
        annotations=_sendable(error.annotations),
    )


def is_condition(name: object) -> bool:
    """Tell whether this can be sent as a condition: ASCII text of 1 to 255 characters."""
    return isinstance(name, str) and name.isascii() and 0 < len(name) <= MAX_CONDITION


def _sendable(annotations: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return annotations unchanged, or none if AMQP cannot carry them: user code may raise any outcome."""
    try:
        encode_value({Symbol(name): value for name, value in annotations.items()})
    except Exception:  # names and values may be anything
        return {}
    return annotations


@dataclass(frozen=True, slots=True)
class FailureStrategy:
    """The treatment of a delivery whose item could not be decoded, or whose processing raised.

    It is not used for an error that is an outcome itself (`DeliveryFailed`): that goes on unchanged.

    Attributes:
        outcome: The outcome for an error.
        ends: Whether an item that could not be decoded ends the subscription with the error; otherwise it goes on with
            the next item. For a failure in the pipeline, the pipeline decides.
        forward: Takes the encoded message and the error instead, and ends the claims when it knows the outcome. `done`
            accepts the item; all other calls give it back as failed. Their source is a `Forwarded`.
        on_undecodable: Called with the reason why an item could not be decoded, if that does not end the subscription.
    """

    outcome: Callable[[BaseException], Outcome]
    ends: bool = False
    forward: Callable[[bytes, BaseException, Claims], None] | None = None
    on_undecodable: Callable[[BaseException], None] | None = None


def described(error: BaseException, *, expose: bool) -> str:
    """Return the text about an error: its type, and its own text if `expose` is true."""
    kind = type(error).__name__
    text = text_of(error) if expose else ""
    return (f"{kind}: {text}" if text else kind)[:MAX_TEXT]


def failed(error: BaseException, *, expose: bool = False) -> Outcome:
    """Return the outcome that gives an item back as failed, with the text about `error` (3.4.5)."""
    condition = condition_of(error)[0]
    told = {ERROR_DESCRIPTION: described(error, expose=expose)}
    if is_condition(condition):
        told[ERROR_CONDITION] = condition
    return Outcome("modified", delivery_failed=True, annotations=told)


def reject(error: BaseException, *, expose: bool = False) -> Outcome:
    """Return the outcome that rejects an item because of `error`."""
    return Outcome("rejected", Condition.INTERNAL_ERROR.value, described(error, expose=expose))


END: Final = FailureStrategy(outcome_of, ends=True)
"""Give the item back as failed; an item that cannot be decoded ends the subscription."""


class Forwarded(Settles):
    """The source of a delivery whose message was forwarded; the delivery is accepted when the forwarding is done.

    Args:
        source: Settles the delivery. It gets it back as failed if it was not forwarded.
        give_up: Ends the subscription it came with: its forwarded messages will never be taken.
    """

    __slots__ = ("_source", "give_up")

    def __init__(self, source: Settles, give_up: Callable[[BaseException], None]) -> None:
        self._source = source
        self.give_up = give_up

    def settle(self, epoch: int, places: Sequence[Any], how: Ending) -> None:
        """Accept the delivery, or give it back as failed."""
        self._source.settle(epoch, places, how if how is DONE else DeliveryFailed("modified", delivery_failed=True))


class Delivery(Generic[T]):
    """An item together with its delivery, whose outcome the user decides (manual settlement).

    Until one of the methods below is called, the delivery is unsettled and counts against the window of its link. Only
    the first call counts. If the link is lost, a later call sends nothing: the peer has taken the delivery back. As a
    context manager it returns its item, accepts it at the end of the block, and fails it if the block raises.

    Attributes:
        item: The item.
        settled: Whether its outcome has been decided.

    Errors: `SpecViolation` in another thread; the delivery is then not settled.
    Context: Any task of the connection's trio run; never blocks.
    Spec: AMQP 1.0 section 3.4 (delivery state).
    """

    __slots__ = ("_hold", "_thread", "item", "settled")

    def __init__(self, item: T, hold: Hold) -> None:
        """Decide on `item` by ending `hold`."""
        self.item = item
        self.settled = False
        self._hold = hold
        self._thread = get_ident()

    def __repr__(self) -> str:
        """Return the item, and whether it is settled."""
        return f"<{'settled' if self.settled else 'unsettled'} delivery of {self.item!r:.80}>"

    def accept(self) -> None:
        """Accept the item: it has been processed."""
        if self._settles("accept"):
            self._hold.done()

    def reject(self, condition: str = Condition.INTERNAL_ERROR.value, description: str = "") -> None:
        """Reject the item: it is invalid and must not be sent again. Brokers put it among their dead letters.

        Args:
            condition: The reason, as a symbol: one of `rstreams.errors.Condition` or the application's own.
            description: Text for people.

        Errors: `ConfigError` for a condition that is not ASCII text of 1 to 255 characters, or a description that is
            not a text.
        """
        if not is_condition(condition):
            msg = f"reject(condition={condition!r:.80}): it must be an ASCII text of 1 to {MAX_CONDITION} characters"
            raise ConfigError(msg)
        if not isinstance(description, str):
            msg = f"reject(description={description!r:.80}): it must be a text"
            raise ConfigError(msg)
        self._fail(DeliveryFailed("rejected", condition, description))

    def release(self) -> None:
        """Give the item back unchanged: another consumer may get it, or this one again."""
        if self._settles("release"):
            self._hold.release()

    def modify(
        self,
        *,
        delivery_failed: bool = True,
        undeliverable_here: bool = False,
        annotations: Mapping[str, Any] | None = None,
    ) -> None:
        """Give the item back with a mark.

        Args:
            delivery_failed: Whether this was a failed attempt, which increases the message's delivery-count.
            undeliverable_here: Whether it must not come to this consumer again.
            annotations: Notes on the message for its next consumer, by name; AMQP wants names that begin with
                "x-opt-". If the notes do not fit into one frame of the peer, 64 KiB with most peers, the message goes
                back without them.

        Errors: `ConfigError` for a mark that is not True or False, and for annotations that AMQP cannot carry.
        """
        require_flag("modify", "delivery_failed", delivery_failed)
        require_flag("modify", "undeliverable_here", undeliverable_here)
        if annotations is not None and not isinstance(annotations, Mapping):
            refuse_value("modify", "annotations", annotations, "a mapping, such as {'x-opt-reason': 'late'}")
        noted = dict(annotations or {})
        for name in noted:
            if not isinstance(name, str):
                refuse_value("modify", "annotations", annotations, "a mapping whose names are texts")
        encode_value({Symbol(name): value for name, value in noted.items()})
        self._fail(
            DeliveryFailed(
                "modified", delivery_failed=delivery_failed, undeliverable_here=undeliverable_here, annotations=noted
            )
        )

    def fail(self, error: BaseException) -> None:
        """Fail the item, because its processing raised `error`: the stream's `on_failure` decides."""
        self._fail(error)

    def __enter__(self) -> T:
        return self.item

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.accept()
        else:
            self.fail(error)

    def _fail(self, error: BaseException) -> None:
        if self._settles("settling an item"):
            self._hold.fail(error)

    def _settles(self, call: str) -> bool:
        """Tell whether this is the first call; only that one counts."""
        if get_ident() != self._thread:
            refuse_thread(call, self._thread)
        first = not self.settled
        self.settled = True
        return first
