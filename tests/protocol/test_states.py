"""Every state of a link times everything that can happen to it, driven through `Link` and compared with the table."""

from __future__ import annotations

import itertools
import re
from collections import deque

import pytest

from rstreams.errors import Condition, ConnectionLost, LocalProtocolError, RemoteProtocolError
from rstreams.protocol.delivery import ACCEPTED
from rstreams.protocol.frames import Attach, Detach, Disposition, Flow, Frame, Lost, Role, Transfer
from rstreams.protocol.link import Link
from rstreams.protocol.states import TRANSITIONS, LinkEvent, State
from tests.protocol.played import PlayedDriver


class Heard:
    """An endpoint that records what its link lets through."""

    place = str

    def __init__(self) -> None:
        self.frames: list[Frame | Lost] = []
        self.worked = 0

    def on_attach(self, frame: Attach) -> None:
        self.frames.append(frame)

    def on_flow(self, frame: Flow) -> None:
        self.frames.append(frame)

    def on_transfer(self, frame: Transfer) -> None:
        self.frames.append(frame)

    def on_disposition(self, frame: Disposition) -> None:
        self.frames.append(frame)

    def on_detach(self, frame: Detach) -> None:
        self.frames.append(frame)

    def on_lost(self, frame: Lost) -> None:
        self.frames.append(frame)

    def work(self) -> None:
        self.worked += 1


OTHER = {Role.SENDER: Role.RECEIVER, Role.RECEIVER: Role.SENDER}
ONLY_FROM = {Transfer: Role.SENDER, Disposition: Role.RECEIVER}


def frame_of(event: LinkEvent, role: Role) -> Frame:
    """Return the frame that makes `event` happen to a link of `role`."""
    speaker = role if event.name.startswith("SEND") else OTHER[role]
    frames: dict[str, Frame] = {
        "ATTACH": Attach("n", speaker, "a", "b"),
        "REFUSAL": Attach("n", speaker, None, None),
        "FLOW": Flow(3),
        "TRANSFER": Transfer([1], [b"x"]),
        "DISPOSITION": Disposition([1], ACCEPTED),
        "DETACH": Detach(),
    }
    return frames[event.name.partition("_")[2]]


def paths() -> dict[State, list[LinkEvent]]:
    """Return the shortest way to each state, over the table itself: so each of them can be reached."""
    found: dict[State, list[LinkEvent]] = {State.UNATTACHED: []}
    waiting = deque([State.UNATTACHED])
    while waiting:
        state = waiting.popleft()
        for event, after in TRANSITIONS[state].items():
            if after not in found:
                found[after] = [*found[state], event]
                waiting.append(after)
    return found


PATHS = paths()
WORDS = re.compile(r"link 'n': (the peer sent|this side cannot send) an? [a-z]+,? [a-z ]+ \(amqp:illegal-state\)")


def link_in(state: State, role: Role) -> tuple[Link, PlayedDriver, Heard]:
    """Drive a new link to `state`."""
    driver, heard = PlayedDriver(), Heard()
    link = Link("n", role, driver, heard, heard.on_transfer if role is Role.RECEIVER else heard.on_disposition)
    for event in PATHS[state]:
        happen(link, event)
    assert link.state is state
    driver.sent.clear()
    heard.frames.clear()
    return link, driver, heard


def happen(link: Link, event: LinkEvent) -> Frame | Lost:
    if event is LinkEvent.LOSE:
        lost = Lost(ConnectionLost("gone"))
        link.lose(lost)
        return lost
    frame = frame_of(event, link.role)
    if event.name.startswith("SEND"):
        link.send(frame)
    else:
        link.receive(frame)
    return frame


def possible(event: LinkEvent, role: Role) -> bool:
    """Tell whether a link of `role` can be on this side of the event at all."""
    if event is LinkEvent.LOSE:
        return True
    speaker = role if event.name.startswith("SEND") else OTHER[role]
    return ONLY_FROM.get(type(frame_of(event, role)), speaker) is speaker


WORDS = re.compile(r"link 'n': (the peer sent|this side cannot send) an? [a-z]+,? [a-z ]+ \(amqp:illegal-state\)")


def test_every_state_can_be_reached_and_has_its_row() -> None:
    assert set(PATHS) == set(State)
    assert set(TRANSITIONS) == set(State)


NO_REPLY = {(state, LinkEvent.SEND_REFUSAL) for state in State if state is not State.ATTACH_RECEIVED}
NO_REPLY.add((State.UNATTACHED, LinkEvent.RECEIVE_REFUSAL))
"""Where an attach with a null terminus is no reply, and so no refusal; two tests below say what it is there."""


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize(
    ("state", "event"), [case for case in itertools.product(State, LinkEvent) if case not in NO_REPLY]
)
def test_what_may_happen_is_what_the_table_says(state: State, event: LinkEvent, role: Role) -> None:
    link, driver, heard = link_in(state, role)
    after = TRANSITIONS[state].get(event) if possible(event, role) else None

    if event is LinkEvent.LOSE:
        lost = happen(link, event)
        assert link.state is State.DETACHED
        assert heard.frames == ([] if state is State.DETACHED else [lost])
    elif after is not None:
        frame = happen(link, event)
        assert link.state is after
        assert driver.sent == ([frame] if event.name.startswith("SEND") else [])
        assert heard.frames == ([frame] if event.name.startswith("RECEIVE") else [])
    else:
        kind = LocalProtocolError if event.name.startswith("SEND") else RemoteProtocolError
        with pytest.raises(kind) as raised:
            happen(link, event)
        assert raised.value.condition == Condition.ILLEGAL_STATE
        assert WORDS.fullmatch(str(raised.value)), raised.value
        assert link.state is state
        assert not driver.sent
        assert not heard.frames


@pytest.mark.parametrize("role", Role)
def test_a_first_attach_with_a_null_terminus_is_an_attach(role: Role) -> None:
    """2.6.3 makes a null terminus a refusal only in the answer; a peer may attach so, and is refused by address."""
    link, _, heard = link_in(State.UNATTACHED, role)
    frame = happen(link, LinkEvent.RECEIVE_REFUSAL)
    assert link.state is State.ATTACH_RECEIVED
    assert heard.frames == [frame]


@pytest.mark.parametrize("role", Role)
def test_an_attach_of_ours_with_a_null_terminus_is_an_attach(role: Role) -> None:
    link, driver, _ = link_in(State.UNATTACHED, role)
    frame = happen(link, LinkEvent.SEND_REFUSAL)
    assert link.state is State.ATTACH_SENT
    assert driver.sent == [frame]


@pytest.mark.parametrize(
    ("role", "source", "target", "refuses"),
    [
        (Role.SENDER, None, "t", True),
        (Role.SENDER, "s", None, False),
        (Role.RECEIVER, "s", None, True),
        (Role.RECEIVER, None, "t", False),
        (Role.SENDER, "", "", False),
    ],
)
def test_a_reply_refuses_by_its_own_terminus(role: Role, source: str | None, target: str | None, refuses: bool) -> None:  # noqa: FBT001
    assert Attach("n", role, source, target).refuses is refuses


def test_work_goes_to_the_endpoint() -> None:
    link, driver, heard = link_in(State.ATTACHED, Role.SENDER)
    link.work()
    assert heard.worked == 1
    assert link.driver is driver


def test_nothing_leaves_the_last_state_but_what_changes_nothing() -> None:
    assert TRANSITIONS[State.DETACHED] == {LinkEvent.LOSE: State.DETACHED}


def test_after_a_detach_of_ours_all_that_crossed_it_is_heard_and_changes_nothing() -> None:
    row = TRANSITIONS[State.DETACH_SENT]
    late = {event for event in LinkEvent if event.name.startswith("RECEIVE")} - {LinkEvent.RECEIVE_DETACH}
    assert {event for event, after in row.items() if after is State.DETACH_SENT} == late
