"""Links under the verification kit, as processors: what goes in at one end comes out at the other."""

from __future__ import annotations

from typing import Any

import pytest

from rstreams.abc import Publisher
from rstreams.testing.verification import Environment, IdentityProcessorVerification, TrioEnvironment
from tests.conformance.house import House
from tests.conformance.links import LOCAL, Loopback, loopback

TCP = {f"a served stream over TCP ({settlement})": settlement for settlement in ("at_least_once", "at_most_once")}


class Link(House, IdentityProcessorVerification[Any]):
    can_fail = True

    def create_failed_publisher(self) -> Publisher[Any] | None:
        return IdentityProcessorVerification.create_failed_publisher(self)

    def is_same_error(self, sent: BaseException, received: BaseException) -> bool:
        """An error arrives as the condition and the text it left as; it is never rebuilt by its class's name."""
        return str(sent) in str(received)


class TestLocalLink(Link):
    recursion_test_elements = 2_000

    @pytest.fixture(params=list(LOCAL))
    def subject(self, request: pytest.FixtureRequest) -> object:
        return request.param

    def create_identity_processor(self, source: Publisher[Any]) -> Publisher[Any]:
        return LOCAL[str(self.case)](source)


class TestTcpLink(Link):
    env: TrioEnvironment[Loopback]

    @pytest.fixture(params=list(TCP))
    def subject(self, request: pytest.FixtureRequest) -> object:
        return request.param

    def create_environment(self) -> Environment:
        return TrioEnvironment(loopback)

    def create_identity_processor(self, source: Publisher[Any]) -> Publisher[Any]:
        return self.env.resource.served(source, settlement=TCP[str(self.case)])
