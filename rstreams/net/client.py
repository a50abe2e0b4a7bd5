"""The client: opening a connection to an AMQP 1.0 peer."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Sequence
from typing import Any

import trio

from rstreams import _machine
from rstreams._checks.argument_names import named_arguments
from rstreams._checks.names import require_container_id
from rstreams.errors import ConfigError
from rstreams.net.cbs.gate import TokenGate
from rstreams.net.cbs.tokens import TokenSource, require_token_source
from rstreams.net.connection import Connection
from rstreams.net.dialects import Dialect, dialect_named
from rstreams.net.explaining import ClientAnswers, ask_rabbitmq
from rstreams.net.links.connection_links import Links
from rstreams.net.options.limits import (
    DEFAULT_ANSWER_TIMEOUT_S,
    DEFAULT_IDLE_TIMEOUT_S,
    DEFAULT_MAX_FRAME_BYTES,
    DEFAULT_MAX_MESSAGE_BYTES,
    ConnectionLimits,
    require_unsettled,
)
from rstreams.net.transport.address import parse_url
from rstreams.net.transport.opening import DEFAULT_CONNECT_TIMEOUT_S, Mechanism, OpeningOptions
from rstreams.net.transport.reconnect import KeptConnection, Reconnect
from rstreams.protocol.unsettled import DEFAULT_MAX_UNSETTLED, DEFAULT_MAX_UNSETTLED_BYTES
from rstreams.runtime.context_managers import async_entered
from rstreams.runtime.scope import NetworkScope
from rstreams.runtime.service import ends_in_order


@named_arguments
@async_entered("async with rstreams.connect(...) as connection:")
async def connect(
    url: str | Sequence[str],
    *,
    reconnect: Reconnect | None = None,
    tls: ssl.SSLContext | None = None,
    sasl: Mechanism | None = None,
    cbs: TokenSource | None = None,
    allow_plain_over_tcp: bool = False,
    idle_timeout_s: float = DEFAULT_IDLE_TIMEOUT_S,
    connect_timeout_s: float = DEFAULT_CONNECT_TIMEOUT_S,
    answer_timeout_s: float = DEFAULT_ANSWER_TIMEOUT_S,
    max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES,
    max_message_bytes: int | None = DEFAULT_MAX_MESSAGE_BYTES,
    max_unsettled: int = DEFAULT_MAX_UNSETTLED,
    max_unsettled_bytes: int = DEFAULT_MAX_UNSETTLED_BYTES,
    container_id: str | None = None,
    dialect: str | Dialect | None = None,
) -> AsyncIterator[Connection]:
    """Open a connection to an AMQP 1.0 peer for the length of an `async with` block.

    Args:
        url: `amqp://[user:password@]host[:port]`, or `amqps://` for TLS. The default ports are 5672 and 5671. A url
            may end with the name of a virtual host of RabbitMQ 4: `/v2`. Several urls are tried in turn.
        reconnect: When to open a lost connection again. Meanwhile streams and publishers wait; then they go on where
            they were. None: they fail at once when the connection is lost.
        tls: The context for `amqps`, such as `rstreams.tls.client_context` makes. None: the certificate is verified by
            the system's authorities, and must be for the host in the url.
        sasl: The one mechanism to use: "PLAIN", "EXTERNAL" or "ANONYMOUS". None: PLAIN if the url has a user. Without
            a user: ANONYMOUS if `cbs` is given; EXTERNAL, by client certificate, over TLS if the peer offers it;
            otherwise ANONYMOUS.
        cbs: For a peer that lets links in by tokens, such as Azure: a `rstreams.net.cbs.SharedAccessKey`, or a function
            that returns a `rstreams.net.cbs.Token` for an audience. The function is async, or does not block. It is
            called before the first link to an address, and again before the token expires. Each token may take
            `connect_timeout_s`.
        allow_plain_over_tcp: Whether a password or a token may be sent without encryption. To loopback addresses of
            this machine it is always allowed.
        idle_timeout_s: Seconds of silence after which the peer counts as dead; at least 0.2.
        connect_timeout_s: Seconds until the connection must be open.
        answer_timeout_s: Seconds until the peer must have answered when a link is attached or detached, or something is
            managed; `math.inf`: no limit. Credit, items and outcomes may take any time.
        max_frame_bytes: The largest frame that this side takes; larger messages come in several frames.
        max_message_bytes: The largest message that this side takes, in bytes; if the peer sends a larger message, the
            link fails. None: any size.
        max_unsettled: The most items that a link of this side may have sent without the peer settling them, however
            much credit the peer grants.
        max_unsettled_bytes: The same in bytes of their messages; a single message may be larger.
        container_id: This side's name for the peer; a random one by default.
        dialect: How the peer writes addresses and filters: "rabbitmq4", "rabbitmq310", "artemis", "activemq",
            "servicebus", "eventhubs", "router", "none" for addresses as they are, or a `rstreams.net.dialects.Dialect`
            of your own. None: the dialect that matches the peer's description of itself.

    Errors: `ConfigError` for a bad option, or a password or token that would go over the network in clear text;
        `ConnectFailed` if no peer listens there, it does not speak AMQP 1.0 or TLS, or its certificate is not trusted;
        `AuthenticationFailed` if the peer refuses the credentials or the client certificate;
        `ConnectionClosed` if the peer opened the connection and closed it at once. An exception leaves the block
        unwrapped.
    Cancels: The connection is closed in order, within 3 seconds, and its subscriptions end with it.
    Context: One task enters and leaves the block; any task of the same trio run may use the connection.
    """
    if not isinstance(url, str | list | tuple):
        msg = f"url must be a string such as 'amqp://127.0.0.1:5672', or a list of them, not {type(url).__name__}"
        raise ConfigError(msg)
    urls: Sequence[Any] = [url] if isinstance(url, str) else url
    if not urls:
        msg = f"connect({url!r}): give at least one url, such as 'amqp://127.0.0.1:5672'"
        raise ConfigError(msg)
    addresses = [parse_url(each) for each in urls]
    if reconnect is not None and not isinstance(reconnect, Reconnect):
        msg = f"reconnect={reconnect!r:.80}: it must be None or a Reconnect"
        raise ConfigError(msg)
    require_container_id(container_id)
    unsettled = require_unsettled(max_unsettled, max_unsettled_bytes)
    require_token_source(cbs)
    if cbs is not None and sasl is None and all(address.user is None for address in addresses):
        sasl = "ANONYMOUS"
    spoken = None if dialect is None else dialect_named(dialect)
    options = OpeningOptions(
        container_id=container_id or f"rstreams-{_machine.fresh_uuid()}",
        tls=tls,
        sasl=sasl,
        allow_plain_over_tcp=allow_plain_over_tcp,
        connect_timeout_s=connect_timeout_s,
        limits=ConnectionLimits(idle_timeout_s, max_frame_bytes, max_message_bytes, answer_timeout_s=answer_timeout_s),
        sends_tokens=cbs is not None,
    )
    for address in addresses:
        options.check(address)
    async with NetworkScope() as scope:
        own = _machine.fresh_random().random
        gate = None
        if cbs is not None:
            gate = TokenGate(cbs, scope.nursery, options, dialect=spoken, policy=reconnect, random=own)
        answers = ClientAnswers(scope.nursery.start_soon)
        carrier = KeptConnection(addresses, options, reconnect, random=own, on_attach=answers.attach, gate=gate)
        await carrier.open(scope.nursery)
        links = Links(carrier, options.container_id, spoken, unsettled, has_random_id=not container_id)
        links.answer_timeout_s = answer_timeout_s
        links.asks_broker = ask_rabbitmq
        answers.links = links
        connection = Connection(links)
        forget = ends_in_order(lambda timeout_s: connection.drain_and_close(timeout_s=timeout_s))
        try:
            yield connection
        finally:
            forget()
            with trio.CancelScope(shield=True):
                await carrier.close()
