"""The operators' contract for operators that run in a scope: a virtual one, with a clock that the test moves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rstreams.testing import VirtualScheduler
from tests.operators.contract import FunctionContract, OperatorContract


class ScheduledContract(OperatorContract):
    """The common tests, in a virtual scope."""

    scheduler: VirtualScheduler

    @pytest.fixture(autouse=True)
    def _with_scheduler(self) -> Iterator[None]:
        with VirtualScheduler() as self.scheduler:
            yield

    def settle(self) -> None:
        self.scheduler.run()


class ScheduledFunctionContract(ScheduledContract, FunctionContract):
    """The common tests of an operator with a user function, in a virtual scope."""
