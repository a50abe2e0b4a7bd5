"""A node for a test: it listens at a free port of this machine, also behind a network that fails."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from rstreams.net.transport.listener import Listener
from rstreams.node import Node
from rstreams.node.config import DeclaredListener, NodeConfig, read_config
from rstreams.testing.faulty_network import FaultyNetwork


@dataclass(frozen=True, slots=True)
class RunningNode:
    """A node that runs; made by `run_node`.

    Attributes:
        node: The node; a test adds addresses to it.
        listener: The place where it listens.
        network: The network in front of it, if the test asked for one.
    """

    node: Node
    listener: Listener
    network: FaultyNetwork | None = None

    @property
    def url(self) -> str:
        """The url for clients: that of the network, if there is one."""
        return self.listener.url if self.network is None else self.network.url

    def url_for(self, user: str, password: str) -> str:
        """Return the url with a user and a password."""
        scheme, _, place = self.url.partition("://")
        return f"{scheme}://{user}:{password}@{place}"


@asynccontextmanager
async def run_node(
    *,
    config: str | os.PathLike[str] | NodeConfig | None = None,
    faulty: bool = False,
    seed: int = 0,
    **options: Any,  # noqa: ANN401 - those of Node
) -> AsyncIterator[RunningNode]:
    """Run a node for the length of an `async with` block.

    Args:
        config: A config file, or what `read_config` returns. The node has its addresses, users, permissions and limits,
            and listens at 127.0.0.1 with the TLS of its first listener.
        faulty: Whether a `FaultyNetwork` is in front of it.
        seed: For the faults that are random.
        **options: Options of `Node`; they replace those of the file.

    Errors: `ConfigError` for an option that is not allowed.
    """
    described = NodeConfig() if config is None else config if isinstance(config, NodeConfig) else read_config(config)
    first = described.listeners[0]
    async with AsyncExitStack() as exits:
        node = await exits.enter_async_context(described.make(**options))
        listener = await DeclaredListener("127.0.0.1:0", first.tls, first.options).open(node)
        network = None
        if faulty:
            network = await exits.enter_async_context(FaultyNetwork(listener.url, seed=seed))
        yield RunningNode(node, listener, network)
