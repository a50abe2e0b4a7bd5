"""The sink's kept connections, with `rstreams.blocking` played."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from rstreams_spark import _connections
from rstreams_spark._connections import publish
from rstreams_spark._options import Peer
from rstreams_spark._rows import RowPublisher

from rstreams.errors import ConnectFailed, ConnectionLost, DeliveryFailed, RStreamsError
from rstreams.message import Message
from rstreams.testing.probes import ProbeSubscriber

PEER = Peer("h", 5672, "amqp://h")


class Played:
    """Connections whose `publish` does what the test says, one call after the other."""

    def __init__(self) -> None:
        self.opened = 0
        self.closed = 0
        self.published: list[int] = []
        self.script: list[Callable[[RowPublisher], None]] = []

    @contextmanager
    def connect(self, _url: str) -> Iterator[Played]:
        self.opened += 1
        yield self
        self.closed += 1

    def publish(self, _address: str, rows: RowPublisher) -> None:
        self.published.append(self.opened)
        self.script.pop(0)(rows)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    played = Played()
    monkeypatch.setattr(_connections.blocking, "connect", played.connect)
    monkeypatch.setattr(_connections, "_open", {})
    return played


def takes_all(rows: RowPublisher) -> None:
    rows.subscribe(ProbeSubscriber[Message](request=100))


def fails(error: RStreamsError) -> Callable[[RowPublisher], None]:
    def play(_rows: RowPublisher) -> None:
        raise error

    return play


def fails_midway(rows: RowPublisher) -> None:
    rows.subscribe(ProbeSubscriber[Message](request=1))
    msg = "gone"
    raise ConnectionLost(msg)


def some_rows() -> RowPublisher:
    return RowPublisher([Message(body=b"1"), Message(body=b"2")])


def test_a_connection_is_kept_from_task_to_task(played: Played) -> None:
    played.script = [takes_all, takes_all]
    publish(PEER, "a", some_rows())
    publish(PEER, "a", some_rows())
    assert (played.opened, played.closed, played.published) == (1, 0, [1, 1])


def test_each_peer_has_its_own(played: Played) -> None:
    played.script = [takes_all, takes_all]
    publish(PEER, "a", some_rows())
    publish(Peer("other", 5672, "amqp://other"), "a", some_rows())
    assert played.opened == 2


def test_a_kept_connection_that_died_between_two_tasks_is_opened_anew(played: Played) -> None:
    played.script = [takes_all, fails(ConnectionLost("gone")), takes_all]
    publish(PEER, "a", some_rows())
    publish(PEER, "a", some_rows())
    assert (played.opened, played.closed, played.published) == (2, 1, [1, 1, 2])


def test_one_that_dies_with_rows_under_way_fails_the_task_and_is_forgotten(played: Played) -> None:
    played.script = [takes_all, fails_midway, takes_all]
    publish(PEER, "a", some_rows())
    with pytest.raises(ConnectionLost):
        publish(PEER, "a", some_rows())
    assert (played.opened, played.closed) == (1, 1)
    publish(PEER, "a", some_rows())
    assert played.opened == 2


def test_a_new_one_that_fails_is_not_tried_again(played: Played) -> None:
    played.script = [fails(ConnectFailed("refused"))]
    with pytest.raises(ConnectFailed):
        publish(PEER, "a", some_rows())
    assert played.opened == 1


def test_a_row_that_is_not_accepted_leaves_the_connection_as_it_is(played: Played) -> None:
    played.script = [fails(DeliveryFailed("rejected")), takes_all]
    with pytest.raises(DeliveryFailed):
        publish(PEER, "a", some_rows())
    publish(PEER, "a", some_rows())
    assert (played.opened, played.closed) == (1, 0)
