"""Holds that end while the message is being handed over: they count when `on_next` returns, in queues of any kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rstreams._core.claims import DONE, RELEASED, Ending, end
from rstreams.abc import Hold
from rstreams.node.queue import Queue
from rstreams.testing import ProbeSubscriber
from tests.node.durable import KINDS, Bench, bench, of_kind, send


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Bench]:
    with bench(tmp_path / "s") as made:
        yield made


def hand_over(here: Bench, kind: str, on_item: Callable[[Callable[[], Hold]], None]) -> Queue:
    """Have a queue hand over one message; `on_item` is called meanwhile, with the function that takes a hold on it."""
    queue = of_kind(here, kind, "block", 10, None)
    send(queue, "a")
    here.run()
    probe = ProbeSubscriber[bytes](1)

    def called(_item: bytes) -> None:
        assert probe.subscription is not None
        on_item(probe.subscription.hold)

    probe.on_item = called
    queue.subscribe(probe)
    here.run()
    return queue


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("second", [DONE, RELEASED, ValueError()], ids=["done", "released", "failed"])
def test_it_does_not_settle_what_is_held_after_it(here: Bench, kind: str, second: Ending) -> None:
    holds: list[Hold] = []

    def hold_twice(hold: Callable[[], Hold]) -> None:
        hold().done()
        holds.append(hold())

    queue = hand_over(here, kind, hold_twice)
    assert queue.statistics().unsettled == 1
    end(holds[0], second)
    here.run()
    now = queue.statistics()
    assert (now.accepted, now.released) == (second is DONE, second is RELEASED)
    assert now.modified == isinstance(second, ValueError)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["done", "release", "raises"])
def test_it_counts_when_the_call_returns(here: Bench, kind: str, how: str) -> None:
    seen: list[int] = []

    def end_hold(hold: Callable[[], Hold]) -> None:
        end(hold(), RELEASED if how == "release" else DONE)
        seen.append(here.queues[0].statistics().unsettled)
        if how == "raises":
            raise ValueError

    now = hand_over(here, kind, end_hold).statistics()
    assert seen == [1]
    assert (now.accepted, now.released, now.modified) == (how == "done", how == "release", how == "raises")
