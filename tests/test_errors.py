"""The table between AMQP's error conditions and the exceptions, walked both ways, and what every exception can do."""

from __future__ import annotations

import copy
import pickle
import re

import pytest

from rstreams import errors
from rstreams.errors import (
    CONDITION_TYPES,
    AuthenticationFailed,
    BufferOverflow,
    Condition,
    ConfigError,
    ConnectionClosed,
    ConnectionLost,
    DeliveryFailed,
    DemandDeadlock,
    DemandError,
    LinkDetached,
    PeerClosed,
    ProtocolError,
    PublisherFailed,
    RemoteProtocolError,
    RequestFailed,
    RStreamsError,
    SessionEnded,
    SpecViolation,
    condition_of,
    error_for,
)

INFO = {"address": "prices", "left": 3}

# AMQP 1.0: 2.8.15 (amqp-error), 2.8.16 (connection-error), 2.8.17 (session-error), 2.8.18 (link-error),
# 4.5.8 (transaction-error).
SPECIFIED = {
    "amqp:internal-error": PublisherFailed,
    "amqp:not-found": LinkDetached,
    "amqp:unauthorized-access": LinkDetached,
    "amqp:decode-error": LinkDetached,
    "amqp:resource-limit-exceeded": LinkDetached,
    "amqp:not-allowed": LinkDetached,
    "amqp:invalid-field": LinkDetached,
    "amqp:not-implemented": LinkDetached,
    "amqp:resource-locked": LinkDetached,
    "amqp:precondition-failed": LinkDetached,
    "amqp:resource-deleted": LinkDetached,
    "amqp:illegal-state": LinkDetached,
    "amqp:frame-size-too-small": LinkDetached,
    "amqp:connection:forced": ConnectionClosed,
    "amqp:connection:framing-error": ConnectionClosed,
    "amqp:connection:redirect": ConnectionClosed,
    "amqp:session:window-violation": SessionEnded,
    "amqp:session:errant-link": SessionEnded,
    "amqp:session:handle-in-use": SessionEnded,
    "amqp:session:unattached-handle": SessionEnded,
    "amqp:link:detach-forced": LinkDetached,
    "amqp:link:transfer-limit-exceeded": LinkDetached,
    "amqp:link:message-size-exceeded": LinkDetached,
    "amqp:link:redirect": LinkDetached,
    "amqp:link:stolen": LinkDetached,
    "amqp:transaction:unknown-id": LinkDetached,
    "amqp:transaction:rollback": LinkDetached,
    "amqp:transaction:timeout": LinkDetached,
}


def test_the_table_has_all_28_conditions_and_no_other() -> None:
    assert len(SPECIFIED) == 28
    assert set(Condition) == set(SPECIFIED)
    assert dict(CONDITION_TYPES) == SPECIFIED


@pytest.mark.parametrize("condition", SPECIFIED)
def test_each_condition_to_its_type_and_back(condition: str) -> None:
    error = CONDITION_TYPES[condition](condition, "why", INFO)
    assert condition_of(error) == (condition, "why", INFO)


@pytest.mark.parametrize("condition", [*SPECIFIED, "shop:sold-out"])
@pytest.mark.parametrize(("scope", "kind"), [("session", SessionEnded), ("connection", ConnectionClosed)])
def test_what_was_closed_decides_over_the_conditions_family(condition: str, scope: str, kind: type[PeerClosed]) -> None:
    error = error_for(condition, "why", INFO, scope=scope)  # type: ignore[arg-type]
    assert type(error) is kind
    assert condition_of(error) == (condition, "why", INFO)


@pytest.mark.parametrize("condition", [*SPECIFIED, "shop:sold-out"])
def test_a_detach_is_a_detach_whatever_the_condition(condition: str) -> None:
    error = error_for(condition, "why", INFO)
    failed = condition in {"amqp:internal-error", "shop:sold-out"}
    assert type(error) is (PublisherFailed if failed else LinkDetached)
    assert condition_of(error) == (condition, "why", INFO)
    assert str(error) == f"why ({condition})"


def test_a_condition_alone_is_enough() -> None:
    error = error_for("amqp:not-found")
    assert (str(error), error.description, dict(error.info)) == ("amqp:not-found", "", {})


def test_what_the_peer_said_cannot_be_changed() -> None:
    info = {"a": 1}
    error = error_for("amqp:not-found", info=info)
    info["a"] = 2
    assert error.info["a"] == 1
    with pytest.raises(TypeError):
        error.info["a"] = 3  # type: ignore[index]


@pytest.mark.parametrize(
    ("error", "condition"),
    [
        (DemandError(0), Condition.NOT_ALLOWED),
        (SpecViolation("1.1", "too many"), Condition.NOT_ALLOWED),
        (BufferOverflow("full"), Condition.RESOURCE_LIMIT_EXCEEDED),
        (ConfigError("window=0"), Condition.INVALID_FIELD),
        (AuthenticationFailed("no"), Condition.UNAUTHORIZED_ACCESS),
    ],
)
def test_our_own_errors_travel_with_their_condition_and_text(error: RStreamsError, condition: Condition) -> None:
    assert condition_of(error) == (condition.value, str(error), {})


def test_a_protocol_error_travels_unchanged() -> None:
    assert condition_of(RemoteProtocolError("amqp:decode-error", "no message")) == (
        "amqp:decode-error",
        "no message",
        {},
    )


def test_what_a_handler_says_of_a_request_travels_unchanged() -> None:
    assert condition_of(RequestFailed("shop:sold-out", "no tea")) == ("shop:sold-out", "no tea", {})


@pytest.mark.parametrize(
    "error", [ValueError("the password is x"), ConnectionLost("to db.internal:5672"), KeyboardInterrupt()]
)
def test_of_other_errors_only_the_fact_travels(error: BaseException) -> None:
    assert condition_of(error) == ("amqp:internal-error", "the publisher failed", {})
    condition, description, info = condition_of(error, expose=True)
    assert (condition, info) == ("amqp:internal-error", {})
    assert description == f"{type(error).__name__}: {error}"


def test_an_error_that_went_over_a_link_comes_out_as_what_the_peer_said() -> None:
    """Never rebuilt by class name: the remote type is text, and only if it was exposed."""
    arrived = error_for(*condition_of(ValueError("x < 0"), expose=True))
    assert type(arrived) is PublisherFailed
    assert arrived.description == "ValueError: x < 0"
    arrived.place = "db.internal:5672, link from 'a'"  # for people here, and nobody else's business
    assert str(arrived) == "db.internal:5672, link from 'a': ValueError: x < 0 (amqp:internal-error)"
    assert str(pickle.loads(pickle.dumps(arrived))) == str(arrived)  # noqa: S301 - our own bytes
    again = error_for(*condition_of(arrived))
    assert (again.condition, again.description) == (arrived.condition, arrived.description)


EXAMPLES: list[RStreamsError] = [
    *(
        kind("what happened")
        for name in errors.__all__
        if isinstance(kind := getattr(errors, name), type)
        and issubclass(kind, RStreamsError)
        and not issubclass(kind, (SpecViolation, ProtocolError, PeerClosed, DeliveryFailed, DemandDeadlock))
    ),
    *(kind("a:b", "why") for kind in (ProtocolError, errors.LocalProtocolError, RemoteProtocolError)),
    *(kind("a:b", "why", INFO) for kind in (PeerClosed, LinkDetached, PublisherFailed, SessionEnded, ConnectionClosed)),
    SpecViolation("2.13", "it raised"),
    DemandError(-1),
    DeliveryFailed("rejected", "x:bad", "unreadable", accepted=7),
    DemandDeadlock("it hangs", blocked="group_by", waits_for="flat_map", live=3, concurrency=2, kept=256),
]


def test_the_examples_are_all_the_exceptions_there_are() -> None:
    named = [getattr(errors, name) for name in errors.__all__]
    kinds = [each for each in named if isinstance(each, type) and issubclass(each, RStreamsError)]
    assert {type(error) for error in EXAMPLES} == set(kinds)


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_can_be_copied_and_pickled(error: RStreamsError) -> None:
    error.outcome_unknown = 3
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):  # noqa: S301 - our own bytes
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert vars(twin) == vars(error)
        assert twin.outcome_unknown == 3


def test_the_tree_is_the_designs() -> None:
    def tree(kind: type, depth: int = 0) -> list[str]:
        below: list[type] = sorted(kind.__subclasses__(), key=lambda each: each.__name__)
        below = [each for each in below if each.__module__ == "rstreams.errors"]
        return ["  " * depth + kind.__name__, *(line for each in below for line in tree(each, depth + 1))]

    assert (
        tree(RStreamsError)
        == """\
RStreamsError
  BufferOverflow
  ConfigError
  DeliveryFailed
  DemandDeadlock
  NoItem
  PeerClosed
    ConnectionClosed
    LinkDetached
      PublisherFailed
    SessionEnded
  ProtocolError
    LocalProtocolError
    RemoteProtocolError
  RequestFailed
  SpecViolation
    DemandError
  StoreError
  StreamTimeout
  TooManyItems
  TransportError
    AnswerTimeout
    AuthenticationFailed
    ConnectFailed
    ConnectionLost
      IdleTimeout""".splitlines()
    )


def test_a_config_error_is_a_value_error_too() -> None:
    assert issubclass(ConfigError, ValueError)


def test_the_texts_name_what_happened() -> None:
    assert (
        str(DemandError(0)) == "Reactive Streams rule 3.9: request(n) takes a positive integer number of items, not 0"
    )
    assert str(DeliveryFailed("rejected", "x:bad", "unreadable")) == "the receiver rejected an item (x:bad: unreadable)"
    assert str(DeliveryFailed("released")) == "the receiver released an item"
    assert str(RemoteProtocolError("amqp:decode-error", "no message")) == "no message (amqp:decode-error)"
    assert re.fullmatch(r"Reactive Streams rule 2\.13: it raised", str(SpecViolation("2.13", "it raised")))
