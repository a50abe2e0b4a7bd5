"""What goes wrong in a world."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Final, TypeVarTuple, Unpack

import trio

from rstreams.simulation.agenda import Agenda
from rstreams.simulation.history import History
from rstreams.simulation.network import MemoryConnection, MemoryNetwork
from rstreams.simulation.part import WorldPart
from rstreams.simulation.surroundings import SimulationError
from rstreams.simulation.weather import OF_PAIRS, OF_PARTS, Fault, Kind, drawn

Args = TypeVarTuple("Args")

_SMALL_FAULTS: Final = 6
"""The most faults of one weather in a small world."""


class WorldFaults(ABC):
    """The part of a `World` that lets things go wrong.

    Attributes:
        seed: Everything that differs from world to world depends on it.
        now: Returns the seconds since the beginning.
        history: What the parts have noted; see `rstreams.simulation.checker`.
        faults: How many faults there were.
        plan: The faults that `weather` has drawn.
        only: The numbers of those that happen; None: all do.
        is_small: Whether numbers of things and of faults are small; see `how_many`.
        calms_at_s: When everything heals; 0: there is no weather.
        disturbed_until_s: When the last of the faults so far is over.
    """

    def __init__(self, seed: int, agenda: Agenda, only: frozenset[int] | None) -> None:
        self.seed = seed
        self.now = agenda.current_time
        self.history = History(self.now)
        self.faults = 0
        self.plan: list[Fault] = []
        self.calms_at_s = 0.0
        self.disturbed_until_s = 0.0
        self._weathers = 0
        self.only = only
        self.is_small = False
        self._parts: dict[str, WorldPart] = {}
        self._planned: list[tuple[float, Callable[[], object]]] = []
        self._has_begun = False
        self._is_over = False
        self._agenda = agenda
        self._network: MemoryNetwork
        self._folder: Path

    def numbers(self, name: str) -> Random:
        """Return a source of random numbers that depends on the seed and a name alone."""
        return Random(f"{self.seed}/{name}")  # noqa: S311 - it shall be the same each time

    @abstractmethod
    def _begin(self, part: WorldPart) -> None:
        """Let a part begin a life."""

    def at(self, time_s: float, function: Callable[[Unpack[Args]], object], *args: *Args) -> None:
        """Call a function at a time, in seconds since the beginning."""
        self._planned.append((time_s, partial(function, *args)))
        if trio.lowlevel.in_trio_run():
            self._agenda.at(*self._planned.pop())

    def kill(self, name: str, *, for_s: float | None = None, power: bool = False) -> None:
        """Kill a part: its tasks vanish without a goodbye, and its connections with them.

        Args:
            name: The part.
            for_s: The time after which it begins again, in seconds; None: it does so by `restart`.
            power: Whether the power of its host fails. Then the others do not notice until they send something, and
                the disk loses what was not synced.
        """
        part = self._running(name)
        life = part.life
        if life is None or self._is_over:
            return
        self._fault("kill" if not power else "power", part=name, for_s=for_s)
        self.history.note("killed", part=name)
        life.is_over = True
        part.life = None
        for connection in self._network.live:
            for side, end in enumerate(connection.ends):
                if power and end.host is part.host:
                    connection.forget(side)
                    connection.block(0, 1)
                    part.lost.append(connection.pipes[1 - side])
        for socket in tuple(part.host.sockets):
            socket.close()
        part.host.is_up = not power
        if part.disk is not None:
            part.folder = self._folder / f"{part.name}.{part.lives}"
            part.disk.copy(part.folder, power=power)
            part.disk = None
        life.scope.cancel()
        if for_s is not None:
            self._agenda.after(for_s, partial(self.restart, name))

    def kill_writing(self, name: str, operations: int, *, for_s: float) -> None:
        """Kill a part in the middle of what it writes: at that operation of its disk, or else after a second.

        Args:
            name: The part.
            operations: How many operations of the disk from now.
            for_s: The time after which it begins again, in seconds.
        """
        part = self._running(name)
        life, kill = part.life, partial(self.kill, name, for_s=for_s)
        if part.disk is not None:
            part.disk.files.at_operation = part.disk.files.operations + operations, kill
        self._agenda.after(1.0, lambda: kill() if life is not None and part.life is life else None)

    def restart(self, name: str) -> None:
        """Have a part that was killed begin again; one that runs goes on."""
        part = self._running(name)
        if part.life is None and not self._is_over and not part.ended.is_set():
            self.history.note("started", part=name)
            part.host.is_up = True
            for pipe in part.lost:
                pipe.blocked = False
                pipe.unblock()
            part.lost.clear()
            self._begin(part)

    def cut(self, one: str, other: str, *, for_s: float | None = None, back: bool = True) -> None:
        """Let nothing arrive from one part at another one.

        Args:
            one: A part.
            other: Another one.
            for_s: The time after which what has waited arrives, in seconds; None: by `mend`.
            back: Whether the other direction is cut, too.
        """
        self._set_blocked(one, other, back=back, blocked=True)
        self._fault("cut", one=one, other=other, for_s=for_s, back=back)
        if for_s is not None:
            self._agenda.after(for_s, partial(self._set_blocked, one, other, back=back, blocked=False))

    def mend(self, one: str, other: str) -> None:
        """Let everything arrive again, in both directions."""
        self._set_blocked(one, other, back=True, blocked=False)

    def slow(self, one: str, other: str, bytes_per_s: float | None) -> None:
        """Let so many bytes in a second go from one part to another one; None: there is no limit."""
        here, there = self._running(one).host, self._running(other).host
        self._fault("slow", one=one, other=other, bytes_per_s=bytes_per_s)
        self._network.path(here, there).bytes_per_s = bytes_per_s

    def jump(self, name: str, seconds: float) -> None:
        """Set the calendar of a part forward, or back if `seconds` is less than 0; no other clock of it changes."""
        part = self._running(name)
        self._fault("jump", part=name, seconds=seconds)
        part.clock_s += seconds

    def fill_disk(self, name: str, *, for_s: float) -> None:
        """Let the disk of a part be full for a while: it cannot be written."""
        disk = self._running(name).disk
        self._fault("disk_full", part=name, for_s=for_s)
        if disk is not None:
            disk.files.fill(self.now() + for_s)

    def break_disk(self, name: str, *, for_s: float) -> None:
        """Let the disk of a part fail for a while: some of its writes, syncs and reads do."""
        disk = self._running(name).disk
        self._fault("disk_error", part=name, for_s=for_s)
        if disk is not None:
            disk.files.break_down(self.now() + for_s)

    def reset(self, one: str, other: str) -> None:
        """Break the connections between two parts: both sides get an error."""
        for connection in self.connections(one, other):
            self._fault("reset", one=one, other=other, connection=connection.number)
            connection.reset()

    def calm(self) -> None:
        """Heal everything: parts begin again, and everything arrives."""
        self.history.note("healed")
        self.disturbed_until_s = self.now()
        for name in self._parts:
            self.restart(name)
            for other in self._parts:
                self._set_blocked(name, other, back=False, blocked=False)
        for connection in self._network.live:
            connection.heal()
            for pipe in connection.pipes:
                pipe.break_after(None)

    def disturb(
        self, connection: MemoryConnection, kind: str, disturb: Callable[[], object], *, for_s: float | None = None
    ) -> None:
        """Let something happen to one connection, and count it as a fault; after `for_s` it heals."""
        names = {"one": connection.client.name, "other": connection.server.name}
        self._fault(kind, connection=connection.number, for_s=for_s, **names)
        disturb()
        if for_s is not None:
            self._agenda.after(for_s, connection.heal)

    def weather(
        self,
        *,
        parts: Sequence[str] = (),
        pairs: Sequence[tuple[str, str]] = (),
        kinds: Sequence[Kind] = (*OF_PARTS, *OF_PAIRS),
        until_s: float = 2.0,
        most: int = 1000,
    ) -> None:
        """Draw faults from the seed, and let them happen; then everything heals.

            kill        a part is killed, and begins again
            writing     likewise, in the middle of what it writes to its disk
            power       likewise, by a failure of the power: see `kill`
            jump        the calendar of a part jumps
            disk_full   the disk of a part is full for a while
            disk_error  a write, a sync or a read of the disk of a part fails
            cut         nothing arrives between two parts for a while
            one_way     likewise, in one direction
            reset       a connection breaks
            break       likewise, in the middle of what is sent
            forget      one side of a connection forgets it; the other one does not notice until it sends
            hold        nothing arrives on a connection for a while
            slow        a connection gets slow, for a while
            pieces      it carries a few bytes at a time, for a while
            delay       everything arrives later, for a while

        Args:
            parts: The parts that may be killed, and whose disk and calendar may fail.
            pairs: The parts whose connections may fail.
            kinds: The kinds of faults that may happen.
            until_s: When no further fault begins; a second later everything heals.
            most: The most faults.

        Called again, it draws other faults besides. Everything heals when the last of them are over.

        Errors: `SimulationError` for a part or a kind that there is not.
        """
        for kind in kinds:
            if kind not in OF_PARTS + OF_PAIRS:
                msg = f"kinds={kind!r}: there is no such kind of fault, only {', '.join(OF_PARTS + OF_PAIRS)}"
                raise SimulationError(msg)
        for pair in pairs:
            if isinstance(pair, str) or len(pair) != len(("one", "other")):
                msg = f'pairs={pair!r}: give pairs of names, as in pairs=[("node", "shop")]'
                raise SimulationError(msg)
        plan = drawn(
            self.numbers(f"weather {self._weathers}" if self._weathers else "weather"),
            kinds=kinds,
            parts=parts,
            disks=[name for name in parts if self._part(name).has_disk],
            pairs=[pair for pair in pairs if all(map(self._part, pair))],
            until_s=until_s,
            most=min(most, _SMALL_FAULTS) if self.is_small else most,
        )
        for number, fault in enumerate(plan, len(self.plan)):
            self.plan.append(fault)
            if self.only is None or number in self.only:
                self.at(fault.at_s, self._happen, fault)
        self._weathers += 1
        self.calms_at_s = max(self.calms_at_s, until_s + 1.0)
        self.at(until_s + 1.0, self._end_weather)

    def _end_weather(self) -> None:
        if self.now() >= self.calms_at_s:
            self.calm()

    def connections(self, one: str, other: str) -> list[MemoryConnection]:
        """Return the live connections between two parts, the oldest first, to disturb them one by one."""
        here, there = self._running(one), self._running(other)
        return list(self._network.between(here.name, there.name))

    def _set_blocked(self, one: str, other: str, *, back: bool, blocked: bool) -> None:
        here, there = self._running(one).host, self._running(other).host
        self._network.set_blocked(here, there, blocked=blocked)
        if back:
            self._network.set_blocked(there, here, blocked=blocked)

    def _fault(self, kind: str, **fields: object) -> None:
        if self._is_over:
            return
        self.faults += 1
        for_s = fields.get("for_s", 0.0)
        until_s = self.now() + for_s if isinstance(for_s, float) else math.inf
        self.disturbed_until_s = max(self.disturbed_until_s, until_s)
        self.history.note("fault", kind=kind, **fields)

    def _running(self, name: str) -> WorldPart:
        """Return a part of a world that runs, or has run."""
        part = self._part(name)
        if not self._has_begun:
            msg = f"{name!r}: the world does not run yet: say when, as in `world.at(0.0, world.kill, {name!r})`"
            raise SimulationError(msg)
        return part

    def _part(self, name: str) -> WorldPart:
        if name not in self._parts:
            msg = f"{name!r}: the simulation has no such part, only {', '.join(map(repr, self._parts)) or 'none'}"
            raise SimulationError(msg)
        return self._parts[name]

    def _happen(self, fault: Fault) -> None:
        """Let a fault begin; it ends by itself."""
        part, *others = fault.parts
        match fault.kind:
            case "kill":
                self.kill(part, for_s=fault.for_s)
            case "writing":
                self.kill_writing(part, 1 + int(fault.draw * 12), for_s=fault.for_s)
            case "power":
                self.kill(part, for_s=fault.for_s, power=True)
            case "jump":
                self.jump(part, (fault.draw - 0.5) * 7200)
            case "disk_full":
                self.fill_disk(part, for_s=fault.for_s)
            case "disk_error":
                self.break_disk(part, for_s=fault.for_s)
            case "cut":
                self.cut(part, others[0], for_s=fault.for_s)
            case "one_way":
                pair = (part, others[0]) if fault.draw < 0.5 else (others[0], part)
                self.cut(*pair, for_s=fault.for_s, back=False)
            case _:
                live = self.connections(part, others[0])
                if live:
                    self._disturb_one(fault, live[int(fault.draw * len(live))])

    def _disturb_one(self, fault: Fault, connection: MemoryConnection) -> None:
        """Let one connection fail."""
        digit = int(fault.draw * 1000)
        side, pipe = digit % 2, connection.pipes[digit % 2]
        disturb: Callable[[], object]
        match fault.kind:
            case "reset":
                disturb = connection.reset
            case "break":
                disturb = partial(pipe.break_after, digit % 97 * 11 + 1)
            case "forget":
                disturb = partial(connection.forget, side)
            case "hold":
                disturb = partial(connection.block, *((0, 1) if digit % 3 == 0 else (side,)))
            case "slow":
                disturb = partial(setattr, pipe, "bytes_per_s", 3_000 + 100 * digit)
            case "pieces":
                disturb = partial(setattr, pipe, "piece_bytes", (5, 30, 100, 400)[digit % 4])
            case _:
                disturb = partial(setattr, pipe, "extra_s", fault.draw)
        self.disturb(connection, fault.kind, disturb, for_s=fault.for_s)
