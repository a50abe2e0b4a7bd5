"""A scheduler for the stages that need one; `settle` lets their tasks run."""

from collections.abc import Callable, Iterator

import pytest

from rstreams._scheduler import current_scheduler
from tests.operators.manual_scheduler import ManualScheduler


@pytest.fixture(autouse=True)
def settle() -> Iterator[Callable[[], None]]:
    scheduler = ManualScheduler()
    token = current_scheduler.set(scheduler)
    yield scheduler.run
    current_scheduler.reset(token)
