"""Every exception rstreams raises or signals, and the one table between AMQP error conditions and them.

An error from the peer is not rebuilt from a class name: its condition, description and info are kept. Its type only
names the thing that was closed: a link, a session or the connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Literal, Self

from rstreams._published import PublishResult

__all__ = [
    "CONDITION_TYPES",
    "MADE_ANEW",
    "AnswerTimeout",
    "AuthenticationFailed",
    "BufferOverflow",
    "Condition",
    "ConfigError",
    "ConnectFailed",
    "ConnectionClosed",
    "ConnectionLost",
    "DeliveryFailed",
    "DemandDeadlock",
    "DemandError",
    "IdleTimeout",
    "LinkDetached",
    "LocalProtocolError",
    "NoItem",
    "PeerClosed",
    "ProtocolError",
    "PublisherFailed",
    "RStreamsError",
    "RemoteProtocolError",
    "RequestFailed",
    "SessionEnded",
    "SpecViolation",
    "StoreError",
    "StreamTimeout",
    "TooManyItems",
    "TransportError",
    "condition_of",
    "error_for",
]


class Condition(StrEnum):
    """The 28 error conditions of AMQP 1.0 (sections 2.8.15-2.8.18 and 4.5.8)."""

    INTERNAL_ERROR = "amqp:internal-error"
    NOT_FOUND = "amqp:not-found"
    UNAUTHORIZED_ACCESS = "amqp:unauthorized-access"
    DECODE_ERROR = "amqp:decode-error"
    RESOURCE_LIMIT_EXCEEDED = "amqp:resource-limit-exceeded"
    NOT_ALLOWED = "amqp:not-allowed"
    INVALID_FIELD = "amqp:invalid-field"
    NOT_IMPLEMENTED = "amqp:not-implemented"
    RESOURCE_LOCKED = "amqp:resource-locked"
    PRECONDITION_FAILED = "amqp:precondition-failed"
    RESOURCE_DELETED = "amqp:resource-deleted"
    ILLEGAL_STATE = "amqp:illegal-state"
    FRAME_SIZE_TOO_SMALL = "amqp:frame-size-too-small"
    CONNECTION_FORCED = "amqp:connection:forced"
    CONNECTION_FRAMING_ERROR = "amqp:connection:framing-error"
    CONNECTION_REDIRECT = "amqp:connection:redirect"
    SESSION_WINDOW_VIOLATION = "amqp:session:window-violation"
    SESSION_ERRANT_LINK = "amqp:session:errant-link"
    SESSION_HANDLE_IN_USE = "amqp:session:handle-in-use"
    SESSION_UNATTACHED_HANDLE = "amqp:session:unattached-handle"
    LINK_DETACH_FORCED = "amqp:link:detach-forced"
    LINK_TRANSFER_LIMIT_EXCEEDED = "amqp:link:transfer-limit-exceeded"
    LINK_MESSAGE_SIZE_EXCEEDED = "amqp:link:message-size-exceeded"
    LINK_REDIRECT = "amqp:link:redirect"
    LINK_STOLEN = "amqp:link:stolen"
    TRANSACTION_UNKNOWN_ID = "amqp:transaction:unknown-id"
    TRANSACTION_ROLLBACK = "amqp:transaction:rollback"
    TRANSACTION_TIMEOUT = "amqp:transaction:timeout"


MADE_ANEW: Final = "rstreams:made-anew"
"""The condition for a log that is not there any more: another one has its address, and a reader cannot go on in it.

A node tells it. A reader of a stream of RabbitMQ finds it out by itself.
"""


class RStreamsError(Exception):
    """The base of every exception of this library.

    Attributes:
        outcome_unknown: Items sent whose outcome was not known when this error ended their link. They may have arrived
            or not, and never count as success.
        published: The outcomes of the items, if `publish` has raised this error; otherwise None.
    """

    outcome_unknown: int = 0
    published: PublishResult | None = None

    def __copy__(self) -> Self:
        """Return the same error without a traceback: each of several tasks that raise it adds its own."""
        kind, (cls, args, attributes) = self.__reduce__()
        error: Self = kind(cls, args, attributes)
        error.__cause__ = self.__cause__
        return error

    def __reduce__(self) -> tuple[Any, ...]:
        """Let an error be copied, and pickled into another process, also if its constructor takes other arguments."""
        plain = {name: dict(value) if name == "info" else value for name, value in self.__dict__.items()}
        return _restore, (type(self), self.args, plain)


def _restore(kind: type[RStreamsError], args: tuple[Any, ...], attributes: dict[str, Any]) -> RStreamsError:
    error = kind.__new__(kind)
    error.args = args
    for name, value in attributes.items():
        setattr(error, name, MappingProxyType(value) if name == "info" else value)
    return error


class ConfigError(RStreamsError, ValueError):
    """An option has a value that cannot work; the message names the option, the value and what is allowed."""


class BufferOverflow(RStreamsError):
    """A bounded buffer was offered more items than it may hold."""


class StoreError(RStreamsError):
    """A store cannot be opened, or cannot go on; the message says which one and why.

    Nothing that a store has accepted is dropped silently: if it is damaged, this error says so.
    """


class NoItem(RStreamsError):
    """A stream completed without the item that was asked for."""


class TooManyItems(RStreamsError):
    """A stream has more than the one item that was expected."""


class StreamTimeout(RStreamsError):
    """A stream did not signal within the time it was given."""


class DemandDeadlock(RStreamsError):
    """Operators of one pipeline wait only for each other, and nothing can ever end that.

    It is raised only if that is certain. The pipeline waits as long as a timer, a task, a later request or a source
    that may still end by itself could end the blocking. A link that has sent all requested items is given 5 seconds to
    end.

    It is found only in a scope; every terminal, `open()`, a connection and a node have one. A stage is checked when all
    work of the present turn is done, and only a scope knows when that is. Inside the call that blocks a stage, a stage
    further up may still ask or subscribe.

    Attributes:
        blocked: The operator that cannot go on, such as "group_by" or "partition".
        waits_for: The operator it waits for, which waits for it, such as "flat_map" or "zip"; empty if nothing can read
            its streams any more.
        live: How many streams the first one has open, or how many subscribers.
        concurrency: How many streams the second one reads at a time; 0 if it reads one by other means, or none.
        kept: How many items wait in the first one.
    """

    def __init__(self, text: str, *, blocked: str, waits_for: str, live: int, concurrency: int, kept: int) -> None:
        """Name both operators and the numbers."""
        super().__init__(text)
        self.blocked = blocked
        self.waits_for = waits_for
        self.live = live
        self.concurrency = concurrency
        self.kept = kept


class SpecViolation(RStreamsError):
    """A publisher or subscriber broke a rule of the Reactive Streams specification.

    Attributes:
        rule: The number of the rule, such as "3.9".
    """

    def __init__(self, rule: str, message: str) -> None:
        """Name the broken rule."""
        super().__init__(f"Reactive Streams rule {rule}: {message}")
        self.rule = rule


class DemandError(SpecViolation):
    """`request(n)` was called with an `n` that is not a positive integer (rule 3.9)."""

    def __init__(self, n: object) -> None:
        """Say which demand was asked for."""
        super().__init__("3.9", f"request(n) takes a positive integer number of items, not {n!r}")


class ProtocolError(RStreamsError):
    """One side broke AMQP 1.0.

    Attributes:
        condition: The AMQP error condition that describes it.
    """

    def __init__(self, condition: str, message: str) -> None:
        """Describe the breach by condition and text."""
        super().__init__(f"{message} ({condition})")
        self.condition = condition
        self.description = message


class LocalProtocolError(ProtocolError):
    """This side asked for something that AMQP does not allow in its state; nothing was sent."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something that AMQP does not allow; its link, session or connection is ended with the condition."""


class PeerClosed(RStreamsError):
    """The peer closed a link, a session or the connection.

    Attributes:
        condition: The peer's error condition, such as "amqp:not-found"; one of `Condition` or the peer's own.
        description: The peer's text; may be empty.
        info: The peer's info map; may be empty.
        place: The peer, and the link if that was closed, as text; empty if they are not known.
    """

    place: str = ""

    def __init__(self, condition: str, description: str = "", info: Mapping[str, Any] | None = None) -> None:
        """Carry the peer's error, unchanged."""
        super().__init__(f"{description} ({condition})" if description else condition)
        self.condition = condition
        self.description = description
        self.info: Mapping[str, Any] = MappingProxyType(dict(info or {}))

    def __str__(self) -> str:
        """Return the peer's error, and the name of the peer."""
        text = super().__str__()
        return f"{self.place}: {text}" if self.place else text


class LinkDetached(PeerClosed):
    """The peer detached a link: the address does not exist, is not allowed, or was taken away."""


class PublisherFailed(LinkDetached):
    """The publisher at the other end of the link signalled `on_error`."""


class SessionEnded(PeerClosed):
    """The peer ended a session, and with it every link in it."""


class ConnectionClosed(PeerClosed):
    """The peer closed the connection with an error condition."""


class TransportError(RStreamsError):
    """The network connection failed."""


class ConnectFailed(TransportError):
    """No AMQP connection could be opened: no process listens, or it does not speak AMQP 1.0."""


class ConnectionLost(TransportError):
    """An open connection ended without the peer closing it."""


class IdleTimeout(ConnectionLost):
    """The peer was silent for longer than the idle time-out."""


class AnswerTimeout(TransportError):
    """The peer has not answered an attach, a detach or a management request in time, although it is alive."""


class AuthenticationFailed(TransportError):
    """The peer refused the credentials, cannot check any, or offers no mechanism that this side may use."""


class DeliveryFailed(RStreamsError):
    """The receiver settled an item with another outcome than accepted, or takes no message of its size.

    Attributes:
        outcome: "rejected", "released" or "modified".
        condition: The receiver's error condition if it rejected the item with one, else None.
        description: The receiver's text; may be empty.
        accepted: Items of the same `publish` that were accepted; `published` has all numbers.
        delivery_failed: For "modified": whether this counts as a failed attempt.
        undeliverable_here: For "modified": whether the receiver does not want it again.
        annotations: For "modified": the annotations that the receiver adds to the message.
        refused_here: Whether this side has refused the item, because the receiver takes no message of its size. The
            receiver has not got it then; the outcome is "rejected".

    Spec: AMQP 1.0 sections 3.4 (delivery state) and 2.7.3 (max-message-size).
    """

    def __init__(
        self,
        outcome: Literal["rejected", "released", "modified"],
        condition: str | None = None,
        description: str = "",
        *,
        accepted: int = 0,
        delivery_failed: bool = True,
        undeliverable_here: bool = False,
        annotations: Mapping[str, Any] | None = None,
        refused_here: bool = False,
    ) -> None:
        """Carry the outcome."""
        told = ": ".join(part for part in (condition, description) if part)
        what = "this side refused an item" if refused_here else f"the receiver {outcome} an item"
        super().__init__(what + (f" ({told})" if told else ""))
        self.outcome = outcome
        self.condition = condition
        self.description = description
        self.accepted = accepted
        self.delivery_failed = delivery_failed
        self.undeliverable_here = undeliverable_here
        self.annotations = dict(annotations or {})
        self.refused_here = refused_here


class RequestFailed(RStreamsError):
    """The other side could not answer a request, and reported that; a handler that raises it tells the requester so.

    Attributes:
        condition: An AMQP error condition, such as "amqp:not-found", or one of the responder's own.
        description: The responder's text; may be empty.
    """

    def __init__(self, condition: str, description: str = "") -> None:
        """Carry the responder's error, unchanged."""
        super().__init__(f"{description} ({condition})" if description else condition)
        self.condition = condition
        self.description = description


Scope = Literal["link", "session", "connection"]

_SCOPE_TYPES: Mapping[Scope, type[PeerClosed]] = MappingProxyType(
    {"link": LinkDetached, "session": SessionEnded, "connection": ConnectionClosed}
)


def _type_of(condition: Condition) -> type[PeerClosed]:
    if condition is Condition.INTERNAL_ERROR:
        return PublisherFailed
    kind = condition.split(":")[1]
    return {"connection": ConnectionClosed, "session": SessionEnded}.get(kind, LinkDetached)


CONDITION_TYPES: Mapping[str, type[PeerClosed]] = MappingProxyType({c.value: _type_of(c) for c in Condition})
"""The exception type of each AMQP condition, by the thing that the condition's name says it closes."""

_LOCAL_CONDITIONS: tuple[tuple[type[BaseException], Condition], ...] = (
    (SpecViolation, Condition.NOT_ALLOWED),
    (BufferOverflow, Condition.RESOURCE_LIMIT_EXCEEDED),
    (ConfigError, Condition.INVALID_FIELD),
    (AuthenticationFailed, Condition.UNAUTHORIZED_ACCESS),
)


def error_for(
    condition: str, description: str = "", info: Mapping[str, Any] | None = None, *, scope: Scope = "link"
) -> PeerClosed:
    """Return the exception for an error condition with which the peer closed a link, session or connection.

    On a link, `amqp:internal-error` and conditions that are not AMQP's own mean that the peer's publisher failed. The
    type follows the thing that was closed, not the condition: `amqp:not-found` that ends a session is `SessionEnded`.
    """
    kind = _SCOPE_TYPES[scope]
    if scope == "link":
        kind = CONDITION_TYPES.get(condition, PublisherFailed)
        if not issubclass(kind, LinkDetached):
            kind = LinkDetached
    return kind(condition, description, info)


def text_of(error: BaseException) -> str:
    """Return the text of an error in a form that can be sent; a user's error may have any text, or fail to give one."""
    try:
        text = str(error)
    except Exception:  # it is the user's code
        return ""
    return text.encode("utf-8", "backslashreplace").decode()


def condition_of(error: BaseException, *, expose: bool = False) -> tuple[str, str, Mapping[str, Any]]:
    """Return the condition, description and info by which the peer is told of `error`.

    Conditions that came from a peer or are a responder's own, protocol errors, and messages that are too large are sent
    unchanged. Of any other exception the peer gets only `amqp:internal-error` with a fixed text, unless `expose` allows
    its type and text.
    """
    if isinstance(error, PeerClosed):
        return error.condition, error.description, error.info
    if isinstance(error, (ProtocolError, RequestFailed)):
        return error.condition, error.description, {}
    if isinstance(error, DeliveryFailed) and error.refused_here and error.condition is not None:
        return error.condition, error.description, {}
    for kind, condition in _LOCAL_CONDITIONS:
        if isinstance(error, kind):
            return condition.value, text_of(error), {}
    text = f"{type(error).__name__}: {text_of(error)}" if expose else "the publisher failed"
    return Condition.INTERNAL_ERROR.value, text, {}


def __dir__() -> list[str]:
    return __all__
