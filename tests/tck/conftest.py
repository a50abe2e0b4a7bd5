"""A scheduler for the stages that need one; `settle` lets their tasks run."""

from collections.abc import Callable, Iterator

import pytest

from rstreams._scheduler import current_scheduler
from rstreams.testing import VirtualScheduler


@pytest.fixture(autouse=True)
def settle() -> Iterator[Callable[[], None]]:
    scheduler = VirtualScheduler()
    token = current_scheduler.set(scheduler)
    yield scheduler.run
    current_scheduler.reset(token)
