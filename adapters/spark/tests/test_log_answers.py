"""Questions about logs to a peer that the test plays: refusals that pass, lost connections, and no answer at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest
import trio
from rstreams_spark._logs import logs, tails
from rstreams_spark._logs.logs import NoAnswer, Tail
from rstreams_spark._logs.offsets_at import SeenOffsets, offsets_at
from rstreams_spark._logs.tails import NodeLogs, RabbitMQStreams
from rstreams_spark.errors import SourceFailed

from rstreams.errors import ConnectionLost, LinkDetached, PeerClosed, RStreamsError, SessionEnded
from rstreams.net.dialects import RabbitMQ4
from rstreams.net.rabbitmq_management import ManagementRefused
from rstreams.net.transport.carrier import ConnectionStatus

NO_REPLICA = LinkDetached("amqp:precondition-failed", "stream 'log' does not have a running replica on the local node")
BROKEN_REPLICA = SessionEnded("amqp:internal-error", "{badmatch,{error,einval}} [{osiris_log,iter_read_ahead,7}]")
LOST = ConnectionLost("the connection broke")
PASSING = [BROKEN_REPLICA, LOST, NO_REPLICA, NoAnswer("the peer did not answer about 'log' within 30 s")]
ENDS = {"plain": (0, 9), "parts-0": (0, 4), "parts-1": (3, 7)}


class Broker:
    """A RabbitMQ 4 with the streams `ENDS`, of which a super stream.

    Attributes:
        errors: What the next questions get in place of an answer: to the management, and about the ends of streams.
        asked: How often each stream was asked about in the management.
    """

    status = ConnectionStatus("connected", "played")
    dialect = RabbitMQ4()

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.errors: dict[str, list[RStreamsError]] = {"management": [], "ends": []}
        self.asked: Counter[str] = Counter()
        monkeypatch.setattr(tails, "rabbitmq_management", self._management)
        monkeypatch.setattr(logs, "offsets_at", self._offsets_at)

    @asynccontextmanager
    async def _management(self, _connection: object) -> AsyncIterator[Broker]:
        self._fail("management")
        yield self

    async def queue(self, name: str) -> dict[str, str]:
        self.asked[name] += 1
        if name in ENDS:
            return {"type": "stream"}
        raise ManagementRefused(name, 404, "not found", "RabbitMQ")

    async def _offsets_at(self, _connection: object, address: str, start: object, *_: object) -> SeenOffsets:
        self._fail("ends")
        offset = ENDS[address][0 if start == "first" else 1]
        return SeenOffsets(offset, offset, 1, 100)

    def _fail(self, question: str) -> None:
        if self.errors[question]:
            raise self.errors[question].pop(0)


def streams_of(broker: Broker, refused_s: float = 600.0) -> RabbitMQStreams:
    streams = RabbitMQStreams(broker)  # type: ignore[arg-type]
    streams.refused_s = refused_s
    return streams


PARTS = [Tail("parts", 0, "parts-0", 0, 5, 100), Tail("parts", 1, "parts-1", 3, 8, 100)]


@pytest.mark.parametrize("question", ["management", "ends"])
async def test_a_broker_that_elects_a_leader_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], autojump_clock: object, question: str
) -> None:
    broker = Broker(monkeypatch)
    broker.errors[question] = [*PASSING, *PASSING]
    assert await streams_of(broker).tails(["plain", "parts"]) == [Tail("plain", 0, "plain", 0, 10, 100), *PARTS]
    assert not broker.errors[question]
    assert capsys.readouterr().err.count("asked again for up to 600 s (option maxReconnectTime)") == 1


async def test_also_one_partition_and_the_kind_of_an_address(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    broker = Broker(monkeypatch)
    broker.errors = {"management": list(PASSING), "ends": list(PASSING)}
    assert await streams_of(broker).kind_of("parts") == "log"
    assert await streams_of(broker).tail(PARTS[1]) == PARTS[1]
    assert broker.errors == {"management": [], "ends": []}


@pytest.mark.parametrize("error", PASSING)
@pytest.mark.parametrize("question", ["management", "ends"])
async def test_an_error_that_stays_is_raised_when_the_time_is_over(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: object, error: RStreamsError, question: str
) -> None:
    broker = Broker(monkeypatch)
    broker.errors[question] = [error] * 1_000
    with pytest.raises(type(error)):
        await streams_of(broker, refused_s=30.0).tails(["parts"])
    assert 30 <= trio.current_time() < 40
    broker.errors[question] = [error] * 2
    with pytest.raises(type(error)):
        await streams_of(broker, refused_s=0.0).tails(["parts"])


@pytest.mark.parametrize("condition", ["unauthorized-access", "not-allowed", "resource-limit-exceeded"])
@pytest.mark.parametrize("kind", [LinkDetached, SessionEnded])
@pytest.mark.parametrize("question", ["management", "ends"])
async def test_another_refusal_is_raised_at_once(
    monkeypatch: pytest.MonkeyPatch, kind: type[PeerClosed], condition: str, question: str
) -> None:
    broker = Broker(monkeypatch)
    broker.errors[question] = [kind(f"amqp:{condition}", "not for you")]
    with pytest.raises(kind, match="not for you"):
        await streams_of(broker).tails(["plain"])


@pytest.mark.parametrize("kind", [LinkDetached, SessionEnded])
async def test_a_stream_that_is_gone_has_no_ends(monkeypatch: pytest.MonkeyPatch, kind: type[PeerClosed]) -> None:
    broker = Broker(monkeypatch)
    broker.errors["ends"] = [kind("amqp:not-found", "no such stream")]
    assert await streams_of(broker).tails(["plain"]) == []


async def test_a_broker_that_does_not_tell_about_a_stream_is_not_taken_for_one_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker(monkeypatch)
    streams = streams_of(broker)
    assert await streams.tails(["parts"]) == PARTS
    broker.errors["management"] = [ManagementRefused("GET /queues/parts-2", 400, "absent", "RabbitMQ")]
    with pytest.raises(ManagementRefused):
        await streams.tails(["parts"])
    broker.errors["management"] = [ManagementRefused("GET /queues/plain", 403, "no access", "RabbitMQ")]
    assert await streams.kind_of("plain") is None


async def test_only_a_super_stream_is_asked_for_more_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(monkeypatch)
    streams = streams_of(broker)
    await streams.tails(["plain", "parts"])
    monkeypatch.setitem(ENDS, "parts-2", (0, 0))
    assert await streams.tails(["plain", "parts"]) == [
        Tail("plain", 0, "plain", 0, 10, 100),
        *PARTS,
        Tail("parts", 2, "parts-2", 0, 1, 100),
    ]
    assert broker.asked == {"plain": 1, "parts": 1, "parts-0": 1, "parts-1": 1, "parts-2": 2, "parts-3": 1}


class LateLink:
    """A connection and its link, whose attach the peer has not answered yet."""

    dialect = RabbitMQ4()
    subscriber: Any = None
    cancelled = False

    def stream(self, _address: str, **_options: object) -> LateLink:
        return self

    def subscribe(self, subscriber: object) -> None:
        self.subscriber = subscriber

    def cancel(self) -> None:
        self.cancelled = True


async def test_a_link_that_is_attached_after_the_question_was_given_up_ends(autojump_clock: object) -> None:
    link = LateLink()
    with trio.move_on_after(1) as scope:
        await offsets_at(link, "log", "first", 1, "x-stream-offset")  # type: ignore[arg-type]
    assert scope.cancelled_caught
    link.subscriber.on_subscribe(link)
    assert link.cancelled


class QuietNode:
    """A node whose connection has these states from these times on, and that answers at a time."""

    def __init__(self, states: dict[float, Literal["connected", "lost"]], answers_at: float) -> None:
        self._states = {at: ConnectionStatus(state, "played") for at, state in states.items()}
        self._answers_at = answers_at

    @property
    def status(self) -> ConnectionStatus:
        return self._states[max(at for at in self._states if at <= trio.current_time())]

    def stream(self, _address: str) -> QuietNode:
        return self

    async def first_or_none(self) -> dict[str, Any]:
        await trio.sleep_until(self._answers_at)
        return {"logs": {"log": {"partitions": [{"first": 0, "next": 4, "bytes": 40, "messages": 4}]}}}


@pytest.mark.parametrize("states", [{0: "connected", 10: "lost", 50: "connected"}, {0: "lost", 59: "connected"}])
async def test_an_answer_is_waited_for_while_the_connection_is_lost(
    autojump_clock: object, states: dict[float, Literal["connected", "lost"]]
) -> None:
    node = QuietNode(states, 61)
    assert await NodeLogs(node).tails(["log"]) == [Tail("log", 0, "log", 0, 4, 10)]  # type: ignore[arg-type]


@pytest.mark.parametrize(("states", "gives_up_at"), [({0: "connected"}, 30), ({0: "lost", 50: "connected"}, 90)])
async def test_a_connected_peer_that_does_not_answer_is_an_error(
    autojump_clock: object, states: dict[float, Literal["connected", "lost"]], gives_up_at: float
) -> None:
    with pytest.raises(SourceFailed, match=r"the peer did not answer about \$statistics within 30 s"):
        await NodeLogs(QuietNode(states, 1_000)).tails(["log"])  # type: ignore[arg-type]
    assert trio.current_time() == gives_up_at
