"""Links that wait for room in their session work one after the other, as long as there is room."""

from __future__ import annotations

import pytest
from cproton_ffi import lib

from rstreams.net._proton.link_turns import LinkTurns
from rstreams.protocol.frames import Role
from tests.net.engine.test_loops import Pair


class Session:
    """Has room for some runs of items between two outputs."""

    def __init__(self, room: int) -> None:
        self.room = room


class Driver:
    """A link that sends a run in each turn in which there is room, and has always another one."""

    sent_at = 0
    sends = True

    def __init__(self, turns: LinkTurns, session: Session) -> None:
        self.turns = turns
        self.session = session
        self.worked = 0

    def room(self) -> int:
        return self.session.room

    def hand_over(self, most: int) -> bool:
        raise AssertionError(most)

    def work(self) -> None:
        self.worked += 1
        self.session.room -= 1
        self.turns.wait_for_room(self, self.session)  # type: ignore[arg-type]


def waiting(turns: LinkTurns, session: Session, count: int) -> list[Driver]:
    drivers = [Driver(turns, session) for _ in range(count)]
    for driver in drivers:
        turns.wait_for_room(driver, session)  # type: ignore[arg-type]
    return drivers


@pytest.fixture
def turns() -> LinkTurns:
    return LinkTurns(lambda: None, lambda: None)


def after_output(turns: LinkTurns, *sessions: Session, room: int) -> None:
    for session in sessions:
        session.room = room
    turns.wake_waiting()
    while turns.give(100, 60.0):
        pass


def test_only_as_many_links_work_as_there_is_room_for_and_each_has_its_turn(turns: LinkTurns) -> None:
    session = Session(0)
    drivers = waiting(turns, session, 10)
    for _ in range(3):
        after_output(turns, session, room=4)
    assert [driver.worked for driver in drivers] == [2, 2, 1, 1, 1, 1, 1, 1, 1, 1]


def test_a_session_without_room_does_not_hold_another_one_up(turns: LinkTurns) -> None:
    full, free = Session(0), Session(0)
    blocked, others = waiting(turns, full, 2), waiting(turns, free, 2)
    after_output(turns, free, room=2)
    assert [driver.worked for driver in (*blocked, *others)] == [0, 0, 1, 1]


def test_links_go_on_in_the_next_turn_when_the_slice_is_over(turns: LinkTurns, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(3)
    drivers = waiting(turns, session, 3)
    monkeypatch.setattr(LinkTurns, "slice_is_over", lambda _: True)
    turns.wake_waiting()
    assert turns.give(100, 0.0)
    assert [driver.worked for driver in drivers] == [1, 0, 0]
    assert turns.give(100, 0.0)
    assert [driver.worked for driver in drivers] == [1, 1, 0]


def test_a_link_or_a_session_that_is_gone_has_no_turn(turns: LinkTurns) -> None:
    session, gone = Session(0), Session(0)
    drivers, others = waiting(turns, session, 2), waiting(turns, gone, 2)
    turns.wake_waiting()
    turns.forget(drivers[0])  # type: ignore[arg-type]
    turns.forget_session(gone)
    session.room = gone.room = 9
    turns.give(100, 60.0)
    assert [driver.worked for driver in (*drivers, *others)] == [0, 9, 0, 0]


def test_a_link_is_alone_if_no_other_one_waits(turns: LinkTurns) -> None:
    (driver,) = waiting(turns, Session(0), 1)
    turns.wake_waiting()
    assert turns.is_alone(driver)  # type: ignore[arg-type]
    (other,) = waiting(turns, Session(0), 1)
    assert not turns.is_alone(driver)  # type: ignore[arg-type]
    turns.forget(other)  # type: ignore[arg-type]
    assert turns.is_alone(driver)  # type: ignore[arg-type]


def test_a_link_waits_until_a_quarter_of_the_room_is_free() -> None:
    pair = Pair()
    engine = pair.engines.other.engine
    driver, most = engine.links.drivers[0], engine._host.session_bytes
    pair.most = most
    pair.begin_to_send(range(3), [bytes(most // 4 - 100)] * 3)
    assert driver.room_bytes() > most // 4
    pair.begin_to_send(range(3, 4), [bytes(400)])
    assert driver.room_bytes() == 0
    assert driver.room() == 0
    pair.move()
    assert driver.room_bytes() == most
    pair.engines.free()


def test_links_are_counted_in_their_sessions_until_they_are_freed() -> None:
    pair = Pair()
    links = pair.engines.one.engine.links
    drivers = [*links.drivers, *(links.new(f"link {number}", Role.RECEIVER) for number in range(39))]
    sessions = [lib.pn_link_session(driver.pointer) for driver in drivers]
    assert links._in_session == {session: sessions.count(session) for session in sessions}
    assert max(links._in_session.values()) == 2
    for driver in drivers[1:]:
        links._remove(driver)
    assert links._in_session == {sessions[0]: 1}
    pair.engines.free()
