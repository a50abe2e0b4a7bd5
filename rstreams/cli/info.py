"""`rstreams info`: what a peer is and does, or all about one address."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from rstreams.cli.client import Command, run_client
from rstreams.cli.console import Console, add_output_options
from rstreams.cli.exit_codes import CommandEnded, ExitCode
from rstreams.cli.parser import Parser
from rstreams.cli.peer import add_peer_options

if TYPE_CHECKING:
    from rstreams import Connection

_EXAMPLES: Final = """\
examples:
  rstreams info                      what the peer is, and what it can do
  rstreams info orders               all about an address
  rstreams info orders --json | jq .statistics.ready
"""


def add_options(parser: Parser) -> None:
    """Describe the command."""
    parser.description = (
        "Show what the peer is and what it can do; or an address of a node or a queue of RabbitMQ 4, with its options "
        "and counters, and at a node with its links."
    )
    parser.epilog = _EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("address", nargs="?", metavar="ADDRESS", help="the address; without it: the peer")
    add_output_options(parser)
    add_peer_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Show it.

    Errors: `CommandEnded` for whatever goes wrong.
    """
    return run_client(arguments, _work)


async def _work(client: Command) -> int:
    address: str | None = client.arguments.address
    async with client.connect() as connection:
        found = _peer(client, connection) if address is None else await _address(connection, address)
    if client.console.json:
        client.console.print_object(found)
    else:
        _show(client.console, found)
    return ExitCode.DONE


def _peer(client: Command, connection: Connection) -> dict[str, Any]:
    from rstreams.cli.addresses import is_node, product_of
    from rstreams.cli.envelope import plain_value

    dialect = connection.dialect
    node = is_node(connection)
    rabbit = dialect.name == "rabbitmq4"
    return {
        "url": client.peer.place,
        "product": product_of(connection),
        "dialect": dialect.name,
        "properties": plain_value(dict(connection.peer_properties)),
        "can": {
            "look at queues": not dialect.ignores_browse,
            "read logs from a place": _knows(dialect.offset, "first"),
            "filter by SQL": _knows(dialect.selector, "a = 1"),
            "list addresses": node,
            "describe addresses": node or rabbit,
        },
    }


def _knows(make: Any, value: object) -> bool:  # noqa: ANN401 - a method of a dialect
    """Tell whether a dialect can say this."""
    from rstreams.errors import ConfigError

    try:
        make(value)
    except ConfigError:
        return False
    return True


async def _address(connection: Connection, address: str) -> dict[str, Any]:
    from dataclasses import asdict

    from rstreams.cli.addresses import is_node, listed_addresses, product_of
    from rstreams.cli.envelope import plain_value
    from rstreams.cli.ls import object_of

    if is_node(connection):
        for each in await listed_addresses(connection):
            if each.name == address:
                async with connection.management() as management:
                    links = [asdict(link) for link in await management.subscriptions(address)]
                return {**object_of(each), "links": links}
        msg = f"the node has no address {address!r} that this user may manage; rstreams ls lists them"
        raise CommandEnded(ExitCode.NOT_ALL, msg)
    if connection.dialect.name == "rabbitmq4":
        from rstreams.cli.looking import rabbitmqs_queue

        return {
            "name": address,
            "kind": "queue",
            "statistics": plain_value(dict(await rabbitmqs_queue(connection, address))),
        }
    peer = product_of(connection)
    msg = f"{peer} does not describe its addresses over AMQP; rstreams info shows what it can do"
    raise CommandEnded(ExitCode.REFUSED, msg)


def _show(console: Console, found: Mapping[str, Any]) -> None:
    """Print an object for people: a line for each value, those within others behind them."""
    for name, value in found.items():
        if isinstance(value, Mapping):
            console.line(f"{name}:")
            for inner, each in value.items():
                console.line(f"  {inner}: {_text(each)}")
        elif isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value):
            console.line(f"{name}:")
            console.table(tuple(value[0]), [tuple(each.values()) for each in value])
        else:
            console.line(f"{name}: {_text(value)}")


def _text(value: object) -> str:
    import json

    from rstreams.cli.console import visible

    if isinstance(value, bool):
        return "yes" if value else "no"
    return visible(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
