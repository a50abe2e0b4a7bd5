"""The addresses of a peer, as `rstreams ls`, `rstreams info` and the completion of the shell see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rstreams.cli.exit_codes import CommandEnded, ExitCode

if TYPE_CHECKING:
    from rstreams import Connection
    from rstreams.net.management import AddressInfo

NODE: Final = "rstreams"
"""The product of a node."""


def product_of(connection: Connection) -> str:
    """Return the name of the peer's software with its version; "an unknown peer" if it does not tell it."""
    told = [str(connection.peer_properties.get(name, "")) for name in ("product", "version")]
    return " ".join(filter(None, told)) or "an unknown peer"


def is_node(connection: Connection) -> bool:
    """Tell whether the peer is a node of rstreams."""
    return connection.peer_properties.get("product") == NODE


async def listed_addresses(connection: Connection) -> list[AddressInfo]:
    """Return all addresses that the peer lists for this user.

    Errors: `CommandEnded` if the peer lists none: only a node does.
    """
    if not is_node(connection):
        msg = f"{product_of(connection)} does not list its addresses over AMQP; rstreams info ADDRESS looks at one"
        raise CommandEnded(ExitCode.REFUSED, msg)
    async with connection.management() as management:
        return await management.addresses()
