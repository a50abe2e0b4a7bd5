"""The subscription of one of several subscribers: its demand, its end and its claims, over a run that a test plays."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from rstreams._core.claims import NO_HOLD, claims_on
from rstreams._core.demand import UNBOUNDED
from rstreams._core.sight import ASK, CANCEL, SEND
from rstreams._stages.member import Member, require_thread_of
from rstreams.abc import Hold, Subscription
from rstreams.errors import DemandError, SpecViolation
from rstreams.testing import ManualPublisher, ProbeSubscriber


class PlayedRun:
    """A run that notes what its member asks."""

    label = "played"
    window = UNBOUNDED
    failure = None
    waits_for = ""

    def __init__(self) -> None:
        self.source = ManualPublisher[int]()
        self.updates = 0
        self.left: list[object] = []
        self.refused: list[BaseException] = []
        self.resting = True

    def upstreams(self) -> Sequence[Subscription]:
        return [self.source]

    def rests(self) -> bool:
        return self.resting

    def hold(self) -> Hold:
        return NO_HOLD

    def update(self) -> None:
        self.updates += 1

    def leave(self, *members: object) -> None:
        self.left += members

    def refuse(self, member: object, error: BaseException) -> None:  # noqa: ARG002 - there is only one
        self.refused.append(error)


@pytest.fixture
def run() -> PlayedRun:
    return PlayedRun()


def test_its_requests_add_up_and_are_told(run: PlayedRun) -> None:
    member = Member[int](run, ProbeSubscriber[int]())
    member.request(2)
    member.request(3)
    assert (member.requested, member.limit, run.updates) == (5, 5, 2)


def test_an_invalid_request_ends_it_with_an_error(run: PlayedRun) -> None:
    probe = ProbeSubscriber[int]()
    member = Member[int](run, probe)
    member.request(0)
    member.request(1)
    assert isinstance(probe.error, DemandError)
    assert (run.left, run.updates) == ([member], 0)


def test_it_leaves_once(run: PlayedRun) -> None:
    member = Member[int](run, ProbeSubscriber[int]())
    member.cancel()
    member.cancel()
    assert run.left == [member]


def test_another_thread_is_refused(run: PlayedRun) -> None:
    member = Member[int](run, ProbeSubscriber[int]())
    caught: list[BaseException] = []

    def call() -> None:
        calls: list[Callable[[], object]] = [
            partial(member.request, 1),
            member.cancel,
            partial(require_thread_of, [member], "emit()"),
        ]
        for refused in calls:
            try:
                refused()
            except SpecViolation as error:
                caught.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert len(caught) == 3
    require_thread_of([member], "emit()")
    assert (run.updates, run.left) == (0, [])


@pytest.mark.parametrize("raises", [False, True])
def test_a_kept_item_is_done_or_failed_by_its_subscriber(run: PlayedRun, *, raises: bool) -> None:
    error = ValueError("x")

    def raise_it(_: int) -> None:
        if raises:
            raise error

    source, members = ManualPublisher[int](), list[Member[int]]()
    keeper = ProbeSubscriber[int](1, hold=True)
    source.subscribe(keeper)
    members.append(Member[int](run, ProbeSubscriber[int](on_item=raise_it)))
    source.next(1)
    kept = claims_on(keeper.holds[0])
    members[0].emit(1, kept)
    kept.done()
    assert source.outcomes == ["failed" if raises else "done"]
    assert run.refused == ([error] if raises else [])


def test_what_it_waits_for(run: PlayedRun) -> None:
    probe = ProbeSubscriber[int]()
    member = Member[int](run, probe)
    assert member.waits_to(CANCEL) is None
    assert member.waits_to(SEND) == [(SEND, run.source), (ASK, probe)]
    member.request(1)
    assert member.waits_to(SEND) == [(SEND, run.source), (ASK, run)]
    run.resting = False
    assert member.waits_to(SEND) is None
