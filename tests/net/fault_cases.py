"""What the matrix of faults is made of: what the network does to a client, when, and what must hold then."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

import trio
from trio.testing import MockClock

import rstreams
from rstreams import Node, Reconnect
from rstreams.errors import PeerClosed, ProtocolError, RStreamsError, TransportError
from rstreams.testing import FaultTrigger, FaultyNetwork
from rstreams.testing.faults import OneWay, Place
from rstreams.testing.seen_frames import Performative
from tests.net.fault_roles import Role
from tests.net.peers import until

IDLE_S: Final = 30.0
SETTLES_S: Final = 600.0
"""How long everything may take, in virtual time."""

Kind: TypeAlias = Literal["harmless", "cut", "silent", "garbled"]


# what the network does


@dataclass(frozen=True)
class Fault:
    """Something that happens to a connection.

    Attributes:
        kind: "harmless": everything goes on. "cut": a side sees the connection end. "silent": nothing comes any more,
            in a direction at least. "garbled": bytes are not what was sent.
        do: Does it, to bytes in this direction if it is about one.
        client_hears: Whether the client sees the end at once.
        both_hear: Whether both sides do.
    """

    name: str
    kind: Kind
    do: Callable[[FaultTrigger, OneWay], object]
    client_hears: bool = False
    both_hear: bool = False


def _cut(
    name: str, do: Callable[[FaultTrigger, OneWay], object], *, client_hears: bool = True, both_hear: bool = True
) -> Fault:
    return Fault(name, "cut", do, client_hears, both_hear)


def _garbled(name: str, at_byte: int, flip: int = 0xFF) -> Fault:
    return Fault(name, "garbled", lambda it, way: it.corrupt(at_byte=at_byte, flip=flip, direction=way))


FAULTS: Final = [
    Fault("delay", "harmless", lambda it, _: it.delay(0.5, jitter_s=0.4)),
    Fault("bandwidth", "harmless", lambda it, _: it.bandwidth(5000)),
    Fault("slicing", "harmless", lambda it, _: it.slicing(5)),
    Fault("stall", "silent", lambda it, _: it.stall()),
    Fault("stall one way", "silent", lambda it, way: it.stall(direction=way)),
    Fault("blackhole", "silent", lambda it, _: it.blackhole()),
    Fault("blackhole one way", "silent", lambda it, way: it.blackhole(direction=way)),
    _garbled("a byte of the size", 0),
    _garbled("the offset", 4),
    _garbled("the descriptor", 8),
    _garbled("the performative", 10, 0x40),
    _cut("reset", lambda it, _: it.reset()),
    _cut("hang up", lambda it, _: it.hang_up()),
    _cut("half open, the client is closed", lambda it, _: it.half_open(closed="client"), both_hear=False),
    _cut("half open, the client is reset", lambda it, _: it.half_open(closed="client", reset=True), both_hear=False),
    _cut("half open, the peer is closed", lambda it, _: it.half_open(closed="peer"), client_hears=False),
    _cut("half open, the peer is reset", lambda it, _: it.half_open(closed="peer", reset=True), client_hears=False),
    _cut("reset, then closed for a while", lambda it, _: it.reset().close(for_s=1.0)),
]


# when


@dataclass(frozen=True)
class Phase:
    """A place in a connection's life.

    Attributes:
        performative: The frame it happens at; None: as the connection begins.
        way: In which direction that frame travels: of what the link carries ("items"), or of what comes back ("back").
        ends: Whether what is sent may all be there by then.
    """

    name: str
    performative: Performative | None
    way: Literal["to_peer", "to_client", "items", "back"]
    nth: int = 1
    at: Place = "before"
    ends: bool = False


def _phases() -> list[Phase]:
    found = [Phase("connect", None, "to_peer")]
    both: list[OneWay] = ["to_peer", "to_client"]
    handshake: list[tuple[Performative, list[OneWay]]] = [
        ("sasl_header", both),
        ("sasl_mechanisms", ["to_client"]),
        ("sasl_init", ["to_peer"]),
        ("sasl_outcome", ["to_client"]),
        ("amqp_header", both),
        ("open", both),
        ("begin", both),
        ("attach", both),
    ]
    for performative, ways in handshake:
        found += [Phase(f"{performative} {way}", performative, way) for way in ways]
    places: list[Place] = ["before", "inside", "after"]
    for place in places:
        found += [
            Phase(f"{place} the third transfer", "transfer", "items", 3, place),
            Phase(f"{place} the first disposition", "disposition", "back", 1, place),
            Phase(f"{place} the first flow", "flow", "back", 1, place),
        ]
    found.append(Phase("the first transfer", "transfer", "items"))
    farewells: list[Performative] = ["detach", "close"]
    found += [
        Phase(f"{place} {performative} {way}", performative, way, at=place, ends=True)
        for performative in farewells
        for way in both
        for place in places
    ]
    return found


PHASES: Final = _phases()


# a case


@dataclass
class Case:
    """What came of one fault at one place."""

    fired: int = 0
    fired_at: float | None = None
    error: BaseException | None = None
    failed_at: float | None = None
    log: list[logging.LogRecord] = field(default_factory=list)


POLICY: Final = Reconnect(first_delay_s=0.01, max_delay_s=1.0, jitter=0.0, at_start=True)


def run_case(make: type[Role], fault: Fault, phase: Phase, *, returns: bool) -> None:
    """Run one case in a trio run of its own, in virtual time, and check all that holds for any."""
    case = Case()
    trio.run(_run, case, make, fault, phase, returns, clock=MockClock(autojump_threshold=0.001))
    assert case.fired == 1
    _check_log(case, fault)
    if returns or fault.kind == "harmless":
        assert case.error is None, repr(case.error)
        return
    if not phase.ends and fault.kind != "garbled":
        assert case.error is not None, "the loss was told"
    if case.error is not None:
        assert isinstance(case.error, TransportError | ProtocolError | PeerClosed), repr(case.error)
        assert case.failed_at is not None
        assert case.fired_at is not None
        took_s = case.failed_at - case.fired_at
        if fault.client_hears and not phase.ends:
            assert took_s < 0.5, f"at once, and not after {took_s} s"
        assert took_s <= 2 * IDLE_S + 5


class _Log(logging.Handler):
    def __init__(self, case: Case) -> None:
        super().__init__(logging.WARNING)
        self._case = case

    def emit(self, record: logging.LogRecord) -> None:
        self._case.log.append(record)


def _check_log(case: Case, fault: Fault) -> None:
    for record in case.log:
        text = record.getMessage()
        assert record.exc_info is None, f"{text}: {record.exc_info}"
        assert record.levelno < logging.ERROR, text
        expected = ["connecting again in", "refused a connection from"]
        if not fault.both_hear:  # the node finds out when the producer or the consumer is back
            expected += ["another link sends as the producer", "the link was attached again"]
        if fault.kind != "harmless":  # most of them keep one side silent for a while
            expected += [
                "has granted no credit for 10 s",
                "has not answered the attach for 10 s",
                "was away for longer than",
            ]
        if fault.kind == "garbled":
            expected.append("was cut off")
        assert any(words in text for words in expected), text
    refused = [record for record in case.log if "refused a connection" in record.getMessage()]
    assert len(refused) <= 1, "one line"


async def _run(case: Case, make: type[Role], fault: Fault, phase: Phase, returns: bool) -> None:  # noqa: FBT001
    handler = _Log(case)
    logger = logging.getLogger("rstreams")
    logger.addHandler(handler)
    try:
        with trio.fail_after(SETTLES_S):
            await _run_role(case, make, fault, phase, returns=returns)
    finally:
        logger.removeHandler(handler)


async def _run_role(case: Case, make: type[Role], fault: Fault, phase: Phase, *, returns: bool) -> None:
    async with Node(idle_timeout_s=IDLE_S, pack_items=4) as node:
        listener = await node.listen("127.0.0.1:0")
        role = make(node)
        way: OneWay = _other(role.items) if phase.way == "back" else role.items if phase.way == "items" else phase.way
        async with FaultyNetwork(listener.url) as network, trio.open_nursery() as nursery:
            if phase.performative is None:
                trigger = network.after(bytes=0, direction=way)
            else:
                trigger = network.when(phase.performative, nth=phase.nth, at=phase.at, direction=way)
            fault.do(trigger, way)

            async def note_when() -> None:
                await trigger.done()
                case.fired_at = trio.current_time()

            nursery.start_soon(note_when)
            try:
                async with rstreams.connect(
                    network.url,
                    reconnect=POLICY if returns else None,
                    idle_timeout_s=IDLE_S,
                    container_id=role.container_id,
                ) as connection:
                    await role.run(connection)
            except RStreamsError as error:
                case.error = error
                case.failed_at = trio.current_time()
            case.fired = trigger.fired
            nursery.cancel_scope.cancel()
        await until(lambda: not listener.connections and not listener.handshakes)
        for queue in node.statistics().queues.values():
            assert (queue.consumers, queue.producers, queue.unsettled, queue.credit, queue.demand) == (0, 0, 0, 0, 0)
        # Subscriptions that are kept wait for the client, which does not come any more.
        while any(served.subscribers for served in node.statistics().served.values()):  # noqa: ASYNC110 - by the clock
            await trio.sleep(10)  # of virtual time: in small steps this would take seconds of real time
        in_order = fault.both_hear or fault.kind == "harmless" or role.items == "to_peer"
        await role.check(case.error, in_order=in_order)


def _other(way: OneWay) -> OneWay:
    return "to_client" if way == "to_peer" else "to_peer"
