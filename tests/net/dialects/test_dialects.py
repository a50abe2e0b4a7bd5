"""Dialects: which one a peer speaks, and how a plain address, an offset and a filter are said in it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from rstreams.errors import ConfigError
from rstreams.message import Described, Message, Symbol
from rstreams.net.dialects import (
    DIALECTS,
    Dialect,
    Filters,
    PeerDescription,
    Place,
    dialect_named,
    dialect_of,
)
from rstreams.net.dialects.azure import dead_letter_queue, session_filter

OFFSET = "rabbitmq:stream-offset-spec"
SELECTOR = "apache.org:selector-filter:string"


@pytest.mark.parametrize(
    ("properties", "host", "name"),
    [
        ({"product": "RabbitMQ", "version": "4.3.6"}, "", "rabbitmq4"),
        ({"product": "RabbitMQ", "version": "5.0.0"}, "", "rabbitmq4"),
        ({"product": "RabbitMQ", "version": "3.10.8"}, "", "rabbitmq310"),
        ({"product": "RabbitMQ"}, "", "rabbitmq4"),
        ({"product": "apache-activemq-artemis", "version": "2.40.0"}, "", "artemis"),
        ({"product": "ActiveMQ", "version": "5.18.0"}, "", "activemq"),
        ({"product": "skupper-router", "version": "3.1.0"}, "", "router"),
        ({"product": "qpid-dispatch-router"}, "", "router"),
        ({}, "hub.servicebus.windows.net", "servicebus"),
        ({}, "hub.servicebus.usgovcloudapi.net", "servicebus"),
        ({"product": "something new", "version": "4"}, "localhost", "none"),
        ({"product": None, "version": 7}, "", "none"),
        ({}, "", "none"),
    ],
)
def test_a_peer_is_known_by_what_it_says_of_itself(properties: dict[str, Any], host: str, name: str) -> None:
    assert dialect_of(properties, host).name == name
    matching = [each.name for each in DIALECTS.values() if each.matches(PeerDescription(properties, host))]
    assert matching == ([] if name == "none" else [name]), "one at most"


def test_a_dialect_of_ones_own_is_taken_as_it_is() -> None:
    own = Dialect()
    assert dialect_named(own) is own
    with pytest.raises(ConfigError, match="or a Dialect object of your own"):
        dialect_named(Dialect)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_a_dialect_is_had_by_name(name: str) -> None:
    assert dialect_named(name) is DIALECTS[name]
    assert repr(dialect_named(name)) == f"<dialect {name}>"


@pytest.mark.parametrize("name", ["rabbit", "", None, 4])
def test_a_name_that_is_none_is_refused(name: Any) -> None:  # noqa: ANN401 - what a user may give
    with pytest.raises(ConfigError, match=r"^dialect=.*it must be None or one of 'activemq', 'artemis'"):
        dialect_named(name)


@pytest.mark.parametrize(
    ("name", "address", "source", "target"),
    [
        ("none", "orders", Place("orders"), Place("orders")),
        ("none", "queue://orders", Place("queue://orders"), Place("queue://orders")),
        ("rabbitmq4", "orders", Place("/queues/orders"), Place("/queues/orders")),
        ("rabbitmq4", "queue://a b/ü", Place("/queues/a%20b%2F%C3%BC"), Place("/queues/a%20b%2F%C3%BC")),
        ("rabbitmq4", "/queues/orders", Place("/queues/orders"), Place("/queues/orders")),
        ("rabbitmq310", "orders", Place("/queue/orders"), Place("/queue/orders")),
        ("rabbitmq310", "topic://a.b", Place("/topic/a.b"), Place("/topic/a.b")),
        ("rabbitmq310", "/amq/queue/orders", Place("/amq/queue/orders"), Place("/amq/queue/orders")),
        ("rabbitmq310", "/exchange/e/k", Place("/exchange/e/k"), Place("/exchange/e/k")),
        ("artemis", "orders", Place("orders"), Place("orders")),
        ("artemis", "queue://orders", Place("orders", ("queue",)), Place("orders", ("queue",))),
        ("artemis", "topic://prices", Place("prices", ("topic",)), Place("prices", ("topic",))),
        ("activemq", "orders", Place("queue://orders", ("queue",)), Place("queue://orders", ("queue",))),
        ("activemq", "topic://prices", Place("topic://prices", ("topic",)), Place("topic://prices", ("topic",))),
        ("servicebus", "topic://t/Subscriptions/s", Place("t/Subscriptions/s"), Place("t/Subscriptions/s")),
        ("eventhubs", "hub", Place("hub"), Place("hub")),
        ("router", "topic://prices", Place("prices"), Place("prices")),
    ],
)
def test_an_address_in_the_peers_own_words(name: str, address: str, source: Place, target: Place) -> None:
    dialect = dialect_named(name)
    assert dialect.source(address) == source
    assert dialect.target(address) == target


def test_rabbitmq_4_takes_topics_and_hands_out_queues() -> None:
    dialect = dialect_named("rabbitmq4")
    assert dialect.target("topic://a.b") == Place("/exchanges/amq.topic/a.b")
    assert dialect.target("/exchanges/e/k") == Place("/exchanges/e/k")
    for address in ("topic://a.b", "/exchanges/e/k"):
        with pytest.raises(ConfigError, match="bind a queue"):
            dialect.source(address)


PREFERRED: dict[str, Place] = {
    "rabbitmq4": Place("/queues/orders", properties={"rabbitmq:priority": 5}),
    "artemis": Place("orders", properties={"priority": 5}),
    "activemq": Place("queue://orders?consumer.priority=5", ("queue",)),
}
"""The place of `orders` for a receiver of priority 5, at the peers that know priorities of receivers."""


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_a_receiver_that_comes_first_in_the_peers_own_words(name: str) -> None:
    dialect = dialect_named(name)
    place = dialect.source("orders")
    if name in PREFERRED:
        assert dialect.preferred(place, 5) == PREFERRED[name]
    else:
        with pytest.raises(ConfigError, match=f"^priority=5: the peer's dialect is '{name}', and it prefers no"):
            dialect.preferred(place, 5)


@pytest.mark.parametrize("priority", [-1, 128])
def test_activemq_writes_a_priority_as_a_byte(priority: int) -> None:
    dialect = dialect_named("activemq")
    with pytest.raises(ConfigError, match=f"^priority={priority}: .* its priorities are 0 to 127"):
        dialect.preferred(dialect.source("orders"), priority)


def test_activemq_has_other_options_in_the_address_too() -> None:
    dialect = dialect_named("activemq")
    place = dialect.preferred(dialect.source("orders?consumer.exclusive=true"), 5)
    assert place.address == "queue://orders?consumer.exclusive=true&consumer.priority=5"


MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("said", "filters"),
    [
        (lambda d: d["rabbitmq4"].offset("first"), {OFFSET: Described(Symbol(OFFSET), "first")}),
        (lambda d: d["rabbitmq4"].offset(7), {OFFSET: Described(Symbol(OFFSET), 7)}),
        (lambda d: d["rabbitmq4"].offset(MOMENT), {OFFSET: Described(Symbol(OFFSET), MOMENT)}),
        (lambda d: d["rabbitmq4"].selector("a > 1"), {"sql-filter": Described(Symbol("amqp:sql-filter"), "a > 1")}),
        (
            lambda d: d["rabbitmq4"].properties({"a": 1}),
            {"amqp:application-properties-filter": Described(Symbol("amqp:application-properties-filter"), {"a": 1})},
        ),
        (lambda d: d["artemis"].selector("a > 1"), {"jms-selector": Described(Symbol(SELECTOR), "a > 1")}),
        (lambda d: d["activemq"].selector("a > 1"), {"jms-selector": Described(Symbol(SELECTOR), "a > 1")}),
        (
            lambda d: d["eventhubs"].offset("first"),
            {SELECTOR: Described(Symbol(SELECTOR), "amqp.annotation.x-opt-offset > '-1'")},
        ),
        (
            lambda d: d["eventhubs"].offset("next"),
            {SELECTOR: Described(Symbol(SELECTOR), "amqp.annotation.x-opt-offset > '@latest'")},
        ),
        (
            lambda d: d["eventhubs"].offset(12),
            {SELECTOR: Described(Symbol(SELECTOR), "amqp.annotation.x-opt-sequence-number >= '12'")},
        ),
        (
            lambda d: d["eventhubs"].offset(MOMENT),
            {SELECTOR: Described(Symbol(SELECTOR), "amqp.annotation.x-opt-enqueued-time >= '1767225600000'")},
        ),
    ],
)
def test_filters_in_the_peers_own_words(said: Callable[[Any], Filters], filters: Filters) -> None:
    assert said(DIALECTS) == filters


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (lambda d: d["none"].offset("first"), "offset='first': the peer's dialect is 'none'"),
        (lambda d: d["rabbitmq310"].selector("a > 1"), "selector='a > 1': the peer's dialect is 'rabbitmq310'"),
        (lambda d: d["artemis"].properties({"a": 1}), "properties={'a': 1}: the peer's dialect is 'artemis'"),
        (
            lambda d: d["servicebus"].offset("first"),
            "offset='first': the peer's dialect is 'servicebus', and it has no",
        ),
        (lambda d: d["eventhubs"].offset("last"), "offset='last': the peer's dialect is 'eventhubs'"),
    ],
)
def test_what_a_peer_does_not_know_is_refused_by_name(said: Callable[[Any], Filters], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        said(DIALECTS)
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize("offset", ["begin", -1, 2**63, True, None, 1.5, datetime(2026, 1, 1)])  # noqa: DTZ001 - the point
@pytest.mark.parametrize("name", ["none", "rabbitmq4", "eventhubs"])
def test_an_offset_that_cannot_be_is_refused(name: str, offset: Any) -> None:  # noqa: ANN401 - what a user may give
    with pytest.raises(ConfigError, match=r"offset must be 'first', 'last', 'next', an int"):
        dialect_named(name).offset(offset)


@pytest.mark.parametrize(
    ("dialect", "annotations", "filters"),
    [
        ("rabbitmq4", {"x-stream-offset": 6}, {OFFSET: Described(Symbol(OFFSET), 7)}),
        (
            "eventhubs",
            {"x-opt-offset": "4294967", "x-opt-sequence-number": 12},
            {SELECTOR: Described(Symbol(SELECTOR), "amqp.annotation.x-opt-offset > '4294967'")},
        ),
        (
            "eventhubs",
            {"x-opt-sequence-number": 12},
            {SELECTOR: Described(Symbol(SELECTOR), "amqp.annotation.x-opt-sequence-number > '12'")},
        ),
    ],
)
def test_a_stream_goes_on_behind_the_message_that_was_processed_last(
    dialect: str, annotations: dict[str | int, Any], filters: Filters
) -> None:
    assert DIALECTS[dialect].after(Message(annotations=annotations)) == filters


@pytest.mark.parametrize(
    ("dialect", "annotations", "text"),
    [
        (
            "none",
            {"x-stream-offset": 6},
            "after(message): the peer's dialect is 'none', and this dialect has no offsets",
        ),
        ("servicebus", {"x-opt-offset": "6"}, "after(message): the peer's dialect is 'servicebus'"),
        ("rabbitmq4", {}, "after(message): it has no annotation x-stream-offset"),
        ("rabbitmq4", {"x-stream-offset": True}, "after(message): it has no annotation x-stream-offset"),
        ("eventhubs", {"x-opt-offset": "1' OR '1' = '1"}, "after(message): it has no annotation x-opt-offset or x-opt"),
        ("eventhubs", {"x-opt-offset": 6}, "after(message): it has no annotation x-opt-offset or x-opt"),
    ],
)
def test_behind_a_message_that_says_not_where_it_was(
    dialect: str, annotations: dict[str | int, Any], text: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        DIALECTS[dialect].after(Message(annotations=annotations))
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize(
    ("dialect", "address", "audience"),
    [
        ("none", "orders", "orders"),
        ("servicebus", "orders", "sb://x.servicebus.windows.net/orders"),
        ("servicebus", "topic/Subscriptions/s", "sb://x.servicebus.windows.net/topic/Subscriptions/s"),
        ("servicebus", dead_letter_queue("orders"), "sb://x.servicebus.windows.net/orders/$deadletterqueue"),
        ("eventhubs", "hub", "sb://x.servicebus.windows.net/hub"),
        ("eventhubs", "hub/ConsumerGroups/$Default/Partitions/3", "sb://x.servicebus.windows.net/hub"),
    ],
)
def test_what_a_token_is_for(dialect: str, address: str, audience: str) -> None:
    assert DIALECTS[dialect].audience("x.servicebus.windows.net", address) == audience


def test_a_session_of_service_bus() -> None:
    assert session_filter("a") == {"com.microsoft:session-filter": "a"}
    assert session_filter(None) == {"com.microsoft:session-filter": None}
    for session in ("", "x" * 129, 3):
        with pytest.raises(ConfigError, match=r"^session_filter\(session="):
            session_filter(session)  # type: ignore[arg-type]


def test_only_what_was_seen_with_a_server_counts_as_tested() -> None:
    assert {name: dialect.tested for name, dialect in DIALECTS.items() if dialect.tested} == {
        "rabbitmq4": ("4.0.5", "4.3.6"),
        "rabbitmq310": ("3.10.8",),
        "activemq": ("5.17.6",),
    }


def test_what_is_peculiar_is_told() -> None:
    def having(which: Callable[[Dialect], bool]) -> list[str]:
        return [name for name, dialect in DIALECTS.items() if which(dialect)]

    assert having(lambda dialect: not dialect.answers_drain) == ["rabbitmq310"]
    assert having(lambda dialect: dialect.renews_at_zero) == ["rabbitmq310"]
    assert having(lambda dialect: dialect.credit_needs_consumer) == ["router"]
    assert sorted(having(lambda dialect: dialect.ignores_browse)) == ["rabbitmq310", "rabbitmq4"]
