"""Sources, operators and a link over TCP under the verification kit, in an asyncio run."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rstreams.abc import Publisher
from rstreams.aio import Connection, Node, Scope, Stream, connect
from rstreams.testing.verification import (
    AsyncioEnvironment,
    Environment,
    IdentityProcessorVerification,
    PublisherVerification,
)
from tests.conformance.house import House
from tests.conformance.subjects import PROCESSORS, PUBLISHERS, quick_first

LOOPS = ("async", "blocking", "delay", "interval", "parallel", "time", "Unicast", "using")
"""Parts of the names of what needs tasks or time; the rest never learns in which loop it is."""

WITHOUT_ORDER = "map_blocking (concurrency=4)"
"""Its results come in the order in which real threads finish, therefore each run may have another one."""

TCP = {f"a served stream over TCP under asyncio ({mode})": mode for mode in ("at_least_once", "at_most_once")}


async def same(item: Any) -> Any:  # noqa: ANN401 - any item
    return item


class TestPublishers(House, PublisherVerification[Any]):
    recursion_test_elements = 2_000

    @pytest.fixture(params=quick_first(name for name in PUBLISHERS if any(part in name for part in LOOPS)))
    def subject(self, request: pytest.FixtureRequest) -> object:
        return request.param

    def create_environment(self) -> Environment:
        return AsyncioEnvironment(Scope)

    def create_publisher(self, elements: int) -> Publisher[Any]:
        return Stream(PUBLISHERS[str(self.case)](elements))


class TestTasks(House, IdentityProcessorVerification[Any]):
    """Operators whose tasks are tasks of asyncio."""

    recursion_test_elements = 2_000

    @pytest.fixture(
        params=quick_first(name for name in PROCESSORS if any(part in name for part in LOOPS) and name != WITHOUT_ORDER)
    )
    def subject(self, request: pytest.FixtureRequest) -> object:
        return request.param

    def create_environment(self) -> Environment:
        return AsyncioEnvironment(Scope)

    def create_identity_processor(self, source: Publisher[Any]) -> Publisher[Any]:
        return PROCESSORS[str(self.case)](source)


class Loopback:
    """A node and a client of it, over TCP, under asyncio."""

    def __init__(self, node: Node, connection: Connection) -> None:
        self._node = node
        self._connection = connection
        self._numbers = itertools.count(1)

    def served(self, source: Publisher[Any], settlement: Any) -> Publisher[Any]:  # noqa: ANN401 - its name
        address = f"served-{next(self._numbers)}"
        self._node.serve(address, source)
        return self._connection.stream(address, window=8, settlement=settlement)


@asynccontextmanager
async def loopback() -> AsyncIterator[Loopback]:
    async with Node(expose_errors=True) as node:
        listener = await node.listen("127.0.0.1:0")
        async with connect(listener.url) as connection:
            yield Loopback(node, connection)


class TestTcpLink(House, IdentityProcessorVerification[Any]):
    env: AsyncioEnvironment[Loopback]
    can_fail = True

    @pytest.fixture(params=list(TCP))
    def subject(self, request: pytest.FixtureRequest) -> object:
        return request.param

    def create_environment(self) -> Environment:
        return AsyncioEnvironment(loopback, settle_s=0.5)

    def create_identity_processor(self, source: Publisher[Any]) -> Publisher[Any]:
        return self.env.resource.served(source, TCP[str(self.case)])

    def create_failed_publisher(self) -> Publisher[Any] | None:
        return IdentityProcessorVerification.create_failed_publisher(self)

    def is_same_error(self, sent: BaseException, received: BaseException) -> bool:
        """An error arrives as the condition and the text it left as; it is never rebuilt by its class's name."""
        return str(sent) in str(received)
