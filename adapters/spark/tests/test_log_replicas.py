"""Ranges of a log over links that a test plays: replicas that lag or are away, and messages deleted under a link."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest
import trio
from rstreams_spark._logs import ranges
from rstreams_spark._logs.jumps import jumps_in
from rstreams_spark._logs.link import LogLink
from rstreams_spark._logs.logs import Tail
from rstreams_spark._logs.tails import RabbitMQStreams
from rstreams_spark._options import SourceOptions
from rstreams_spark.errors import SourceFailed

from rstreams.errors import LinkDetached, PeerClosed, SessionEnded
from rstreams.message import Message, encode_item

NO_REPLICA = LinkDetached("amqp:precondition-failed", "stream 'log' does not have a running replica on the local node")
BROKEN_REPLICA = SessionEnded("amqp:internal-error", "{badmatch,{error,einval}} [{osiris_log,iter_read_ahead,7}]")


class PlayedStream:
    """A stream of RabbitMQ: a link gets the messages that its replica has, and a drain is answered at once."""

    def __init__(self, there: int, refusals: Sequence[PeerClosed] = ()) -> None:
        self.there = there
        self.absent: range = range(0)  # offsets that no link gets
        self.first = 0  # the first offset that there is, if one asks for it
        self.refusals = list(refusals)
        self.attached = 0
        self.dialect = self

    def offset(self, offset: int) -> dict[str, int]:
        return {"at": offset}

    def stream(self, _address: str, *, filters: dict[str, int], **_options: object) -> PlayedStream:
        self._begin = filters["at"]
        return self

    def subscribe(self, subscriber: LogLink) -> None:
        self.attached += 1
        if self.refusals:
            subscriber.on_error(self.refusals.pop(0))
        else:
            subscriber.on_subscribe(PlayedLink(self, subscriber, self._begin))


class LostStream(PlayedStream):
    """A stream whose replica has 4 messages; 10 seconds later its link is lost, and the next one comes in a minute."""

    def __init__(self) -> None:
        super().__init__(4)

    def subscribe(self, subscriber: LogLink) -> None:
        self.attached += 1
        trio.lowlevel.spawn_system_task(self._first if self.attached == 1 else self._second, subscriber)

    async def _first(self, subscriber: LogLink) -> None:
        subscriber.on_subscribe(PlayedLink(self, subscriber, self._begin))
        await trio.sleep(10)
        self.there = 10
        subscriber.on_complete()

    async def _second(self, subscriber: LogLink) -> None:
        await trio.sleep(60)
        subscriber.on_subscribe(PlayedLink(self, subscriber, self._begin))


class PlayedLink:
    losses = 0

    def __init__(self, stream: PlayedStream, subscriber: LogLink, at: int) -> None:
        self._stream, self._subscriber, self._at, self._demand = stream, subscriber, at, 0

    def request(self, n: int) -> None:
        self._demand += n
        self._send()

    def drain(self, on_drained: Callable[[], None]) -> None:
        self._send()
        on_drained()

    def cancel(self) -> None:
        pass

    def _send(self) -> None:
        while self._demand and self._at < self._stream.there:
            if self._at in self._stream.absent:
                self._at += 1
                continue
            self._demand -= 1
            message = Message(b"", id=str(self._at), annotations={"x-stream-offset": self._at})
            self._at += 1
            self._subscriber.on_next(encode_item(message))


class PlayedLogs(RabbitMQStreams):
    """Knows `end` messages; when it is asked, the replica of the link has caught up with them."""

    def __init__(self, stream: PlayedStream, end: int) -> None:
        super().__init__(stream)  # type: ignore[arg-type]
        self._stream, self._end = stream, end

    async def tail(self, _asked: Tail) -> Tail:
        self._stream.there = self._end
        return Tail("log", 0, "log", self._stream.first, self._end)


def read(monkeypatch: pytest.MonkeyPatch, stream: PlayedStream, known: int = 10, **options: str) -> list[str]:
    """Return the ids of the messages in the range from 0 to 10; the broker that is asked knows `known` messages."""
    monkeypatch.setattr(ranges, "logs_of", lambda *_: PlayedLogs(stream, known))
    given = SourceOptions.parse({"url": "amqp://127.0.0.1", "address": "log", **options})

    class Connected:
        connection = stream

    async def main() -> list[str]:
        part = ranges.LogRange("log", 0, "log", 0, 10, 0, given.peer)
        reader = ranges._RangeReader(Connected(), given, part, "here", ("message_id",))  # type: ignore[arg-type]
        ids: list[str] = []
        while not reader.ended:
            for batch in await reader.part():
                ids += batch.column("message_id").to_pylist()
        return ids

    from trio.testing import MockClock

    return trio.run(main, clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize("replicas", [True, False])
@pytest.mark.parametrize("there", [0, 4, 9, 10])
def test_messages_that_a_peer_has_after_a_drain_are_read(
    monkeypatch: pytest.MonkeyPatch, there: int, *, replicas: bool
) -> None:
    monkeypatch.setattr(PlayedLogs, "has_replicas", replicas)
    assert read(monkeypatch, PlayedStream(there)) == [str(n) for n in range(10)]


def test_a_stream_that_is_refused_for_a_moment_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = PlayedStream(10, [NO_REPLICA, BROKEN_REPLICA] * 3)
    assert read(monkeypatch, stream) == [str(n) for n in range(10)]
    assert stream.attached == 7
    assert capsys.readouterr().err.count("is asked again for up to 600 s (option maxReconnectTime)") == 1


@pytest.mark.parametrize("options", [{"reconnect": "false"}, {"maxReconnectTime": "200ms"}])
def test_a_stream_that_stays_refused_fails_the_task(monkeypatch: pytest.MonkeyPatch, options: dict[str, str]) -> None:
    with pytest.raises(LinkDetached, match="does not have a running replica"):
        read(monkeypatch, PlayedStream(10, [NO_REPLICA] * 100), **options)


def test_a_loss_may_last_longer_than_a_replica_may_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(monkeypatch, LostStream(), known=4) == [str(n) for n in range(10)]


@pytest.mark.parametrize("condition", ["unauthorized-access", "not-allowed", "resource-deleted"])
def test_another_refusal_fails_the_task_at_once(monkeypatch: pytest.MonkeyPatch, condition: str) -> None:
    stream = PlayedStream(10, [LinkDetached(f"amqp:{condition}", "not for you")])
    with pytest.raises(LinkDetached, match="not for you"):
        read(monkeypatch, stream)
    assert stream.attached == 1


@pytest.mark.parametrize("begin", [0, 3])
def test_messages_deleted_under_a_link_fail_the_task_or_are_passed_over(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], begin: int
) -> None:
    stream = PlayedStream(10)
    stream.absent, stream.first = range(begin, 7), 7
    with pytest.raises(SourceFailed, match=f"offsets {begin} to 6 are gone; the log has offsets 7 to 9"):
        read(monkeypatch, stream)
    assert read(monkeypatch, stream, failOnDataLoss="false") == [str(n) for n in range(10) if not begin <= n < 7]
    assert f"offsets {begin} to 6 are gone" in capsys.readouterr().err


@pytest.mark.parametrize(("absent", "first"), [(range(4, 7), 0), (range(4, 7), 4), (range(4, 5), 5), (range(7, 10), 0)])
def test_offsets_that_never_had_a_message_are_no_loss(
    monkeypatch: pytest.MonkeyPatch, absent: range, first: int
) -> None:
    stream = PlayedStream(10)
    stream.absent, stream.first = absent, first
    assert read(monkeypatch, stream) == [str(n) for n in range(10) if n not in absent]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("offsets", "jumps"),
    [
        ([0, 1, 2, 3], []),
        ([2, 3], [(0, 2)]),
        ([1, 2], []),
        ([0, 2, 5, 9, 14, 20], [(3, 5), (6, 9), (10, 12)]),
        ([15], [(0, 12)]),
    ],
)
def test_jumps_of_a_range_that_ends_at_12(offsets: list[int], jumps: list[tuple[int, int]]) -> None:
    assert list(jumps_in(pa.array(offsets, pa.int64()), 0, 12)) == jumps
