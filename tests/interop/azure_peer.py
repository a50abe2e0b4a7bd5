"""Azure's Python client in a process of its own: as a client of Service Bus, and the AMQP client inside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from rstreams import Message
from rstreams.net._proton import LinkDriver
from rstreams.node import Client
from rstreams.protocol.frames import Attach, Role
from tests.interop.processes import Event, told_by
from tests.net.token_node import TokenNode, Tokens

SCRIPTS: Final = Path(__file__).parent / "azure"


async def azure_client(
    installed: Path, script: str, port: int, what: str, address: str, **options: object
) -> tuple[int, list[Event]]:
    """Have Azure's client do one thing, see the scripts in `azure/`; return its exit code and what it told."""
    python, path = str(installed / "bin" / "python"), str(SCRIPTS / f"{script}.py")
    given = [f"{name}={value}" for name, value in options.items()]
    return await told_by([python, path, str(port), what, address, *given], timeout_s=60)


class AzureTokens(Tokens):
    """A `$cbs` that answers on the link that Azure's client has for that: its requests name no address for replies."""

    def take(self, connection: int, request: Message) -> None:
        """See `Tokens`; here a token holds for ever."""
        said = request.properties
        assert said["operation"] == "put-token"
        audience = urlsplit(said["name"])
        told = (202, "Accepted") if str(request.body).startswith("SharedAccessSignature sr=") else (401, "no signature")
        if told[0] == 202:
            self.holding[connection, audience.path.strip("/")] = float("inf")
        properties = {"status-code": told[0], "status-description": told[1]}
        self._replies[connection].send(Message(correlation_id=request.id, properties=properties))


class ServiceBus(TokenNode):
    """A node in the part of Service Bus: a token for each link, and addresses that are whole URLs."""

    def __init__(self) -> None:
        """Make the node, without queues."""
        super().__init__(cbs=False)
        self.tokens = AzureTokens()
        self._addresses["$cbs"] = self.tokens

    def _on_attach(self, client: Client, driver: LinkDriver, frame: Attach) -> None:
        """See `Node`: `amqps://host:port/orders` is `orders`."""
        if frame.role is Role.RECEIVER:
            frame = replace(frame, source=_entity(frame.source))
        else:
            frame = replace(frame, target=_entity(frame.target))
        super()._on_attach(client, driver, frame)


def _entity(address: str | None) -> str | None:
    return urlsplit(address).path.strip("/") if address and "://" in address else address
