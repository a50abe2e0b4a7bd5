"""A run of a source alone: its phases, and what they let through."""

from __future__ import annotations

import pytest

from rstreams._core.claims import NO_HOLD
from rstreams._core.demand import UNBOUNDED
from rstreams._stages.run_of_source import Phase, RunOfSource
from rstreams.abc import Hold
from rstreams.errors import SpecViolation


class Cancelled:
    """A subscription that notes whether it was cancelled."""

    cancelled = False

    def request(self, n: int) -> None:
        raise AssertionError(n)

    def cancel(self) -> None:
        self.cancelled = True

    def hold(self) -> Hold:
        return NO_HOLD


class Run(RunOfSource[int]):
    """A run that counts its changes."""

    def __init__(self) -> None:
        super().__init__("run")
        self.updates = 0
        self.given_back = 0

    def on_next(self, item: int) -> None:
        raise AssertionError(item)

    def update(self) -> None:
        self.updates += 1

    def _let_go(self) -> None:
        self.given_back += 1


@pytest.fixture
def run() -> Run:
    return Run()


def test_it_keeps_one_subscription(run: Run) -> None:
    first, second = Cancelled(), Cancelled()
    run.on_subscribe(first)
    run.on_subscribe(second)
    assert (first.cancelled, second.cancelled) == (False, True)
    assert list(run.upstreams()) == [first]
    assert run.updates == 1


@pytest.mark.parametrize("how", ["complete", "error", "stop"])
def test_nothing_follows_its_end(run: Run, how: str) -> None:
    subscription, late = Cancelled(), Cancelled()
    run.on_subscribe(subscription)
    error = ValueError(how)
    if how == "complete":
        run.on_complete()
    elif how == "error":
        run.on_error(error)
    else:
        run.stop()
    ended = Phase.STOPPED if how == "stop" else Phase.ENDED
    assert (run.phase, run.over) == (ended, True)
    assert run.failure is (error if how == "error" else None)
    assert subscription.cancelled == (how == "stop")
    assert run.given_back == (how == "stop")
    updates = run.updates
    run.on_complete()
    run.on_error(KeyError())
    run.on_subscribe(late)
    assert late.cancelled
    assert (run.phase, run.updates) == (ended, updates)
    assert (run.kept_error is None) == (how != "error")


def test_an_error_that_is_none_is_named(run: Run) -> None:
    run.on_error(None)  # type: ignore[arg-type] # against the rule
    assert isinstance(run.failure, SpecViolation)


def test_without_a_source_it_has_no_window_and_no_error(run: Run) -> None:
    assert (run.window, run.failure, list(run.upstreams()), run.label) == (UNBOUNDED, None, [], "run")
    assert (run.phase, run.over) == (Phase.WAITING, False)
