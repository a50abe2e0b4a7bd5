"""The tables of the two lives: a script over a real end reaches each row, and nothing but the table sets a phase."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

import rstreams
from rstreams.protocol.frames import Attach, Detach, Lost, Role
from rstreams.protocol.life import (
    RECEIVING,
    SENDING,
    Life,
    ReceiverEvent,
    ReceiverPhase,
    SenderEvent,
    SenderPhase,
    Table,
)
from tests.protocol.played import (
    LOST,
    REFUSED_BY_RECEIVER,
    REFUSED_BY_SENDER,
    REJECTED,
    PlayedDriver,
    PlayedReceiver,
    PlayedSender,
    Source,
)

FORCED = Detach(condition="amqp:connection:forced", description="going down")

Row = tuple[Enum, Enum, Enum]


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> list[Row]:
    """The rows that the lives of all ends take, in their order."""
    taken: list[Row] = []
    on = Life.on

    def note(self: Life[Any, Any], event: Enum) -> bool:
        before = self.phase
        changed: bool = on(self, event)
        taken.append((before, event, self.phase))
        return changed

    monkeypatch.setattr(Life, "on", note)
    return taken


def all_rows(table: Table[Any, Any]) -> list[Any]:
    return [
        pytest.param(phase, event, after, id=f"{phase.name}-{event.name}")
        for phase, row in table.items()
        for event, after in row.items()
    ]


# the receiving end


def bound_again(played: PlayedReceiver | PlayedSender) -> None:
    """Give an end another link; its attach is on the way."""
    played.driver = PlayedDriver()
    played.link = played.driver.link = played.end.bind("test", played.driver)
    role = Role.RECEIVER if isinstance(played, PlayedReceiver) else Role.SENDER
    played.link.send(Attach("test", role, "a", "a"))


def receiver_in(phase: ReceiverPhase, *, settled: bool = True) -> PlayedReceiver:
    """Drive a receiving end to `phase`; it holds an item unless its link is new."""
    played = PlayedReceiver(attached=phase is not ReceiverPhase.ATTACHING, request=1, hold=True)
    played.end.attach_later = lambda _error: None
    if phase is ReceiverPhase.ATTACHING:
        return played
    played.driver.wire = 3
    played.transfer(1)
    match phase:
        case ReceiverPhase.APART:
            played.link.lose(Lost(LOST, returns=True))
            bound_again(played)
        case ReceiverPhase.PARTING:
            played.driver.receive(FORCED)
        case ReceiverPhase.LEAVING:
            played.transfer(1, settled=True)  # nobody has asked for it, so the end waits
            played.end.leave()
        case ReceiverPhase.ENDING:
            played.transfer(1, settled=settled)  # likewise
            played.driver.receive(Detach())
        case ReceiverPhase.LEFT:
            played.transfer(1, settled=True)  # likewise
            played.end.leave()
            played.driver.receive(Detach())
        case ReceiverPhase.SILENT:
            played.probe.cancel()
    return played


def end_receiver(played: PlayedReceiver, phase: ReceiverPhase) -> None:
    if phase in (ReceiverPhase.PARTING, ReceiverPhase.ENDING, ReceiverPhase.LEFT):  # the peer has detached already
        played.link.lose(Lost(LOST))
    else:
        played.driver.receive(Detach(condition="amqp:unauthorized-access"))


def part_receiver(played: PlayedReceiver, phase: ReceiverPhase) -> None:
    if phase in (ReceiverPhase.ENDING, ReceiverPhase.LEFT):
        played.link.lose(Lost(LOST, returns=True))
        bound_again(played)
    if phase in (ReceiverPhase.ATTACHING, ReceiverPhase.APART, ReceiverPhase.ENDING, ReceiverPhase.LEFT):
        played.driver.receive(REFUSED_BY_SENDER, FORCED)
    else:
        played.driver.receive(FORCED)


def begin_receiver(played: PlayedReceiver, phase: ReceiverPhase) -> None:
    if phase in (ReceiverPhase.LEAVING, ReceiverPhase.ENDING, ReceiverPhase.LEFT, ReceiverPhase.SILENT):
        played.link.lose(Lost(LOST, returns=True))
        bound_again(played)
    played.attach()


def answer_receiver(played: PlayedReceiver, _phase: ReceiverPhase) -> None:
    played.probe.holds[0].done()
    played.driver.turn()


RECEIVER_SCRIPTS: dict[ReceiverEvent, Callable[[PlayedReceiver, ReceiverPhase], None]] = {
    ReceiverEvent.BEGIN: begin_receiver,
    ReceiverEvent.LOSE: lambda played, _: played.link.lose(Lost(LOST, returns=True)),
    ReceiverEvent.MISS: lambda played, _: played.link.lose(Lost(LOST, returns=True)),
    ReceiverEvent.PART: part_receiver,
    ReceiverEvent.ANSWER: answer_receiver,
    ReceiverEvent.LEAVE: lambda played, _: played.end.leave(),
    ReceiverEvent.END: end_receiver,
    ReceiverEvent.SILENCE: lambda played, _: played.end.cancel(),
}


@pytest.mark.parametrize(("phase", "event", "after"), all_rows(RECEIVING))
def test_each_row_of_a_receiving_end_is_reached(
    phase: ReceiverPhase, event: ReceiverEvent, after: ReceiverPhase, rows: list[Row]
) -> None:
    played = receiver_in(phase, settled=event is not ReceiverEvent.MISS)
    assert played.end._life.phase is phase
    rows.clear()
    RECEIVER_SCRIPTS[event](played, phase)
    assert (phase, event, after) in rows


def test_an_item_waits_in_the_buffer_of_an_end_that_leaves_or_ends() -> None:
    for phase in (ReceiverPhase.LEAVING, ReceiverPhase.ENDING, ReceiverPhase.LEFT):
        played = receiver_in(phase)
        played.driver.turn()
        assert played.end._life.phase is phase
        played.probe.request(1)
        played.driver.wire = 0
        played.driver.turn()
        assert played.probe.items == [0, 1]
        assert played.probe.completed


@pytest.mark.parametrize("leaves_first", [True, False])
def test_an_end_that_has_been_told_to_leave_does_not_come_back_for_what_it_misses(leaves_first: bool) -> None:  # noqa: FBT001
    played = PlayedReceiver(request=1)
    played.driver.wire = 3
    played.transfer(3)
    if leaves_first:
        played.end.leave()
    played.driver.receive(Detach())
    if not leaves_first:
        played.end.leave()
    played.link.lose(Lost(LOST, returns=True))
    assert (played.probe.items, played.probe.completed, played.end.wants_link) == ([0], True, False)


def test_settled_items_of_a_lost_link_are_handed_over_as_they_are_requested_one_by_one() -> None:
    played = PlayedReceiver(request=1)
    played.driver.wire = 5
    played.transfer(5, settled=True)
    played.link.lose(Lost(LOST, returns=True))
    played.probe.on_item = lambda _: played.probe.request(1)
    played.probe.request(1)
    assert played.probe.items == [0, 1, 2, 3, 4]


# the sending end


def sender_in(phase: SenderPhase) -> PlayedSender:
    """Drive a sending end to `phase`; what it has sent is not settled."""
    attached = phase is not SenderPhase.ATTACHING
    played = PlayedSender(attached=attached, resends=phase is not SenderPhase.FINISHED)
    played.end.attach_later = lambda _error: None
    if not attached:
        return played
    played.grant(3)
    played.source.next(0, 1)
    played.driver.turn()
    match phase:
        case SenderPhase.ENDING:
            played.source.complete()
        case SenderPhase.LEAVING:
            played.end.leave()
        case SenderPhase.STOPPED:
            played.settle(REJECTED, 0)
        case SenderPhase.ABORTED:
            played.end.abort()
        case SenderPhase.FINISHED:
            played.link.lose(Lost(LOST))
    return played


def begin_sender(played: PlayedSender, phase: SenderPhase) -> None:
    if phase is SenderPhase.FINISHED:
        played.end.start()  # its owner answers an attach, and the peer has gone meanwhile
        return
    if phase is SenderPhase.ABORTED:
        played = PlayedSender(attached=False)
        played.end.abort()
    elif phase is not SenderPhase.ATTACHING:
        played.link.lose(Lost(LOST, returns=True))
        bound_again(played)
    played.attach()


def stop_sender(played: PlayedSender, phase: SenderPhase) -> None:
    if phase is not SenderPhase.FINISHED:
        played.settle(REJECTED, 1)
        return

    class Losing:
        """A hold of an item behind whose outcome the link is lost."""

        def done(self) -> None: ...
        def release(self) -> None: ...
        def fail(self, _error: BaseException) -> None:
            other.link.lose(Lost(LOST))

    other = PlayedSender()
    other.grant(1)
    other.source.next(0)
    other.driver.turn()
    other.hold_first(Losing())
    other.settle(REJECTED, 0)


def finish_sender(played: PlayedSender, phase: SenderPhase) -> None:
    if phase is SenderPhase.FINISHED:
        played.end.on_lost(Lost(LOST))
    else:
        played.link.lose(Lost(LOST))


SENDER_SCRIPTS: dict[SenderEvent, Callable[[PlayedSender, SenderPhase], None]] = {
    SenderEvent.BEGIN: begin_sender,
    SenderEvent.COMPLETE: lambda played, _: (
        played.end._publisher.on_complete()
    ),  # as a publisher may do behind its cancel
    SenderEvent.LEAVE: lambda played, _: played.end.leave(),
    SenderEvent.STOP: stop_sender,
    SenderEvent.ABORT: lambda played, _: played.end.abort(),
    SenderEvent.LOSE: lambda played, _: played.link.lose(Lost(LOST, returns=True)),
    SenderEvent.FINISH: finish_sender,
}


@pytest.mark.parametrize(("phase", "event", "after"), all_rows(SENDING))
def test_each_row_of_a_sending_end_is_reached(
    phase: SenderPhase, event: SenderEvent, after: SenderPhase, rows: list[Row]
) -> None:
    played = sender_in(phase)
    assert played.end._life.phase is phase
    rows.clear()
    SENDER_SCRIPTS[event](played, phase)
    assert (phase, event, after) in rows


@pytest.mark.parametrize("phase", [SenderPhase.STOPPED, SenderPhase.ABORTED, SenderPhase.FINISHED])
def test_an_end_that_has_given_up_finishes_when_its_link_is_lost(phase: SenderPhase, rows: list[Row]) -> None:
    played = sender_in(phase)
    rows.clear()
    played.end.on_lost(Lost(LOST, returns=True))
    assert rows == [(phase, SenderEvent.FINISH, SenderPhase.FINISHED)]
    assert len(played.finished) == 1


def test_a_publisher_that_sends_too_much_behind_a_loss_has_failed(rows: list[Row]) -> None:
    source = Source(lambda _source, _n: None)
    played = PlayedSender(resends=True, publisher=source)
    played.grant(1)
    source.subscriber.on_next(0)
    source.subscriber.on_next(1)
    played.link.lose(Lost(LOST, returns=True))
    assert [event for _, event, _ in rows[-2:]] == [SenderEvent.STOP, SenderEvent.FINISH]
    assert not played.end.wants_link


def test_a_refusal_for_now_is_no_end() -> None:
    played = sender_in(SenderPhase.ATTACHING)
    played.driver.receive(REFUSED_BY_RECEIVER, FORCED)
    assert played.end._life.phase is SenderPhase.ATTACHING


# the tables


@pytest.mark.parametrize(
    ("table", "phases"), [(RECEIVING, [*ReceiverPhase]), (SENDING, [*SenderPhase])], ids=["receiving", "sending"]
)
def test_every_phase_has_its_row_and_is_reached_from_the_first(table: Table[Any, Any], phases: list[Enum]) -> None:
    first = next(iter(table))
    found, waiting = {first}, deque([first])
    while waiting:
        for after in table[waiting.popleft()].values():
            if after not in found:
                found.add(after)
                waiting.append(after)
    assert found == table.keys() == set(phases)


def test_an_event_that_cannot_happen_is_a_bug_and_changes_nothing() -> None:
    life = Life(RECEIVING, ReceiverPhase.ATTACHING)
    with pytest.raises(RuntimeError, match=r"ReceiverEvent\.ANSWER cannot happen in ReceiverPhase\.ATTACHING"):
        life.on(ReceiverEvent.ANSWER)
    assert life.phase is ReceiverPhase.ATTACHING


def test_only_the_life_sets_its_phase() -> None:
    assert rstreams.__file__ is not None
    sources = Path(rstreams.__file__).parent / "protocol"
    setters = set[str]()
    for path in sources.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr == "phase" and isinstance(node.ctx, ast.Store):
                setters.add(path.relative_to(sources).as_posix())
    assert setters == {"life.py"}
