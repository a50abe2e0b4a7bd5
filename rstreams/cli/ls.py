"""`rstreams ls`: list the addresses of a peer."""

from __future__ import annotations

import argparse
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from rstreams.cli.client import Command, run_client
from rstreams.cli.console import add_output_options
from rstreams.cli.exit_codes import ExitCode
from rstreams.cli.parser import Parser
from rstreams.cli.peer import add_peer_options

if TYPE_CHECKING:
    from rstreams.net.management import AddressInfo

_EXAMPLES: Final = """\
examples:
  rstreams ls
  rstreams ls 'orders.*' --context prod
  rstreams ls --json | jq 'select(.kind == "queue" and .statistics.ready > 100) | .name'
"""

_HEAD: Final = ("name", "kind", "messages", "unsettled", "receivers", "senders")


def add_options(parser: Parser) -> None:
    """Describe the command."""
    parser.description = (
        "List the addresses of a node, those that this user may manage, with their messages, receivers and senders. "
        "Other peers do not list their addresses over AMQP."
    )
    parser.epilog = _EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "pattern", nargs="?", default="*", metavar="PATTERN", help="only names like this; * stands for any characters"
    )
    add_output_options(parser)
    add_peer_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """List.

    Errors: `CommandEnded` for whatever goes wrong.
    """
    return run_client(arguments, _work)


async def _work(client: Command) -> int:
    from rstreams.cli.addresses import listed_addresses

    async with client.connect() as connection:
        found = await listed_addresses(connection)
    found = sorted(
        (each for each in found if fnmatchcase(each.name, client.arguments.pattern)), key=lambda each: each.name
    )
    if client.console.json:
        for each in found:
            client.console.print_object(object_of(each))
    else:
        client.console.table(_HEAD, [_row(each) for each in found])
    return ExitCode.DONE if found else ExitCode.NOT_ALL


def object_of(address: AddressInfo) -> dict[str, Any]:
    """Return an address as an object for --json."""
    return {
        "name": address.name,
        "kind": address.kind,
        "options": dict(address.options),
        "statistics": dict(address.statistics),
    }


def _row(address: AddressInfo) -> tuple[object, ...]:
    counters = address.statistics
    messages, unsettled = counters.get("ready"), counters.get("unsettled")
    receivers = counters.get("consumers")
    if address.kind == "log":
        groups = counters.get("groups", {}).values()
        messages = sum(each["messages"] for each in counters.get("partitions", ()))
        unsettled = sum(each["unsettled"] for each in groups)
        receivers = counters.get("readers", 0) + sum(each["members"] for each in groups)
    elif address.kind == "multicast":
        messages = counters.get("pending")
        receivers = len(counters.get("subscribers", ()))
    elif "subscribers" in counters:
        receivers = counters["subscribers"]
    return (
        address.name,
        address.kind,
        *(_or_none(each) for each in (messages, unsettled, receivers)),
        _senders(counters),
    )


def _senders(counters: Any) -> object:  # noqa: ANN401 - a mapping of counters
    return _or_none(counters.get("producers"))


def _or_none(value: object) -> object:
    return "-" if value is None else value
