"""A world of programs and nodes that runs in virtual time, and in the same way for the same seed."""

from __future__ import annotations

import errno
import hashlib
import inspect
import logging
import math
import os
import re
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, TypeVarTuple, Unpack

import trio

from rstreams.node import Node
from rstreams.runtime.scope import open_nursery
from rstreams.runtime.seldom import LINES_OF_THREADS
from rstreams.simulation.agenda import Agenda
from rstreams.simulation.disk import MemoryDisk
from rstreams.simulation.faults import WorldFaults
from rstreams.simulation.faulty_files import forget_disk
from rstreams.simulation.history import Event
from rstreams.simulation.network import MemoryConnection, MemoryNetwork
from rstreams.simulation.overtime import processor_limit
from rstreams.simulation.part import PartLife, WorldPart, current
from rstreams.simulation.pipe import BUFFER_BYTES, LARGE_BUFFER_BYTES
from rstreams.simulation.sockets import Host
from rstreams.simulation.surroundings import SimulationError, forbid_the_machine, refusals, repeatable
from rstreams.store.disk import disk

Args = TypeVarTuple("Args")

BEGINNING: Final = 1_750_000_000.0
"""The date at which each simulation begins, in seconds since 1970."""

PORT: Final = 5672

PROCESSOR_S: Final = 60.0
"""How long a run may take the processor, in seconds."""

_HOST_NAME: Final = re.compile(r"[\w.-]+", re.ASCII)

_LOG_LINES: Final = 10_000

_WATCHED: Final = ("rstreams", "trio")
"""The loggers whose exceptions nobody could be told of."""

_FOLDER: Final = "rstreams-simulation-"


class World(WorldFaults):
    """Programs and nodes, the network between them, and what goes wrong; made by `simulation`.

    Attributes:
        random: For the program that sets up the world, such as numbers of messages.
        log: The lines of the log of rstreams and of the programs, with their times.
        failures: The exceptions that were logged, because nobody could be told of them.
        refusals: What programs did that a simulation cannot repeat.
        error: What a program has raised, when the run has been judged.
        processor_s: How long the run may take the processor, in seconds; a workload may set it.
        is_late: Whether it has taken longer.
        on_bytes: Called with (time, connection, direction, bytes) when bytes are sent.
        digest: A number of all bytes that went over the network, with their times.
    """

    def __init__(self, seed: int, limit_s: float, only: frozenset[int] | None = None) -> None:
        super().__init__(seed, Agenda(self.stop), only)
        self.random = self.numbers("world")
        self.log: list[str] = []
        self.failures: list[str] = []
        self.refusals: list[str] = []
        self.error: BaseException | None = None
        self.processor_s = PROCESSOR_S
        self.is_late = False
        self.on_bytes: Callable[[float, MemoryConnection, int, bytes], object] | None = None
        self.digest = ""
        self._hash = hashlib.sha256()
        self._why: str | BaseException | None = None
        self._limit_s = limit_s

    # what a program asks

    def today(self) -> float:
        """Return the seconds since 1970 by the calendar of the part that asks."""
        life = current.get()
        return BEGINNING + self.now() + (0.0 if life is None else life.part.clock_s)

    def how_many(self, least: int, most: int) -> int:
        """Draw a number of things, such as producers or items; in a small world most are near the least one."""
        if self.is_small:
            return least + int((most - least + 1) * self.random.random() ** 4)
        return self.random.randint(least, most)

    def note(self, event: Event, /, **fields: object) -> None:
        """Note an event in the history; that of a part which was killed is dropped."""
        life = current.get()
        if not self._is_over and (life is None or not life.is_over):
            self.history.note(event, **fields)

    # parts

    def start(
        self,
        program: Callable[[Unpack[Args]], Awaitable[object]],
        *args: *Args,
        name: str,
        service: bool = False,
    ) -> str:
        """Have a program run on a host of its own, from the beginning of the simulation.

        Args:
            program: An async function. It may use `rstreams`, trio and its sockets; other programs reach it by `name`.
            *args: Its arguments.
            name: The name of the part, and of its host.
            service: Whether the simulation may end while the program runs.

        Returns: The name.

        Errors: `SimulationError` for a name that is used twice.
        """
        self._add(name, partial(program, *args), is_service=service)
        return name

    def node(
        self,
        name: str,
        declare: Callable[[Node], Awaitable[object] | object],
        *,
        store: bool = False,
        **options: Any,  # noqa: ANN401 - those of Node
    ) -> str:
        """Have a node run on a host of its own.

        Args:
            name: The name of the part, and of its host.
            declare: Called with the node each time that it begins; adds its addresses.
            store: Whether it has a store, which outlives kills.
            **options: Options of `Node`.

        Returns: The url for clients.

        Errors: `SimulationError` for a name that is used twice.
        """
        options.setdefault("container_id", name)

        async def run() -> None:
            part = self._parts[name]
            async with Node(store=part.folder if store else None, **options) as node:
                made = declare(node)
                if inspect.isawaitable(made):
                    await made
                await node.listen(f"{part.host.address}:{PORT}")
                await trio.sleep_forever()

        self._add(name, run, is_service=True, has_disk=store)
        return f"amqp://{name}:{PORT}"

    def _add(
        self, name: str, program: Callable[[], Awaitable[object]], *, is_service: bool, has_disk: bool = False
    ) -> None:
        if self._has_begun:
            msg = f"name={name!r}: all parts are added before the world runs; let its program wait for what it needs"
            raise SimulationError(msg)
        if name in self._parts:
            msg = f"name={name!r}: a part of that name is in the simulation already"
            raise SimulationError(msg)
        if not _HOST_NAME.fullmatch(name):
            msg = f"name={name!r}: it is a name of a host: letters, digits, '-', '_' and '.'"
            raise SimulationError(msg)
        host = Host(name, f"127.0.0.{len(self._parts) + 2}")
        self._parts[name] = WorldPart(name, host, program, is_service=is_service, has_disk=has_disk)

    # the run

    def run(self) -> None:
        """Run until all programs that are no services have ended; a part of `simulation`.

        Errors: What a program has raised; `SimulationError` if time is over, if no time passes any more, or if a
            program did what a simulation cannot repeat.
        """
        if not self.calms_at_s and all(part.is_service for part in self._parts.values()):
            msg = "the world has no program that ends, and no weather: nothing would happen; see `world.start`"
            raise SimulationError(msg)
        _remove_left()
        with (
            tempfile.TemporaryDirectory(prefix=f"{_FOLDER}{os.getpid():010}-", dir=_memory()) as folder,
            repeatable(str(self.seed), self.today, self._thread_delay_s),
            _gathered(self.log, self.failures, self.now),
        ):
            self._folder, self._folder_bytes = Path(folder), folder.encode()
            self._threads = self.numbers("threads")
            try:
                with processor_limit(self.processor_s, self._be_late):
                    trio.run(self._main, clock=self._agenda)
            except BaseException:
                if not self.is_late:
                    raise
            finally:
                self.digest = self._hash.hexdigest()
                self.refusals = [*refusals]
                for part in self._parts.values():
                    forget_disk(part.folder)
        if self.is_late:
            raise SimulationError(self._ended())
        if self.refusals:  # nobody has let it through
            raise SimulationError(self.refusals[0])

    async def _main(self) -> None:
        buffer_bytes = self.numbers("network").choice((BUFFER_BYTES, LARGE_BUFFER_BYTES))
        self._network = MemoryNetwork(
            str(self.seed), self._agenda, here=self._here, seen=self._seen, buffer_bytes=buffer_bytes
        )
        trio.socket.set_custom_socket_factory(self._network)
        trio.socket.set_custom_hostname_resolver(self._network)
        self._scope = trio.CancelScope()
        self._has_begun = True
        for part in self._parts.values():
            self._network.hosts[part.name] = part.host
        forbid_the_machine()
        with self._scope:
            async with open_nursery() as self._nursery:
                for time_s, call in self._planned:
                    self._agenda.at(time_s, call)
                self._agenda.at(self._limit_s, partial(self.stop, f"it was not through after {self._limit_s:g} s"))
                for part in self._parts.values():
                    part.folder = self._folder / part.name
                    self._begin(part)
                for part in self._parts.values():
                    if not part.is_service:
                        await part.ended.wait()
                is_calm = trio.Event()
                self._agenda.at(self.calms_at_s, is_calm.set)
                await is_calm.wait()
                self.history.note("end")
                self._is_over = True
                self._nursery.cancel_scope.cancel()
        if isinstance(self._why, BaseException):
            raise self._why
        if self._why is not None:
            raise SimulationError(self._ended())

    def _ended(self) -> str:
        running = [part.name for part in self._parts.values() if not part.is_service and not part.ended.is_set()]
        return f"the simulation has ended at {self.now():g} s: {self._why}; still running: {', '.join(running)}"

    def _be_late(self, place: str) -> None:
        self.is_late = True
        self._why = f"it has taken {self.processor_s:g} s of the processor, and is at {place}"
        self._agenda.end(self._why)

    def stop(self, why: str | BaseException) -> None:
        """End the run with an error; a part of `simulation`."""
        self._why = why
        self._is_over = True
        self._scope.cancel()

    def _begin(self, part: WorldPart) -> None:
        life = part.life = PartLife(part)
        part.lives += 1
        self._nursery.start_soon(self._live, part, life, name=f"{part.name} {part.lives}")

    async def _live(self, part: WorldPart, life: PartLife) -> None:
        current.set(life)
        if part.has_disk:
            part.disk = MemoryDisk(life, part.folder, self.numbers(f"disk/{part.name}/{part.lives}"))
            disk.set(part.disk)
        try:
            with life.scope:
                async with open_nursery() as life.nursery:
                    await part.program()
        except Exception:
            if not life.is_over:
                raise
        if not life.is_over:
            life.is_over = True
            part.life = None
            part.ended.set()
            for socket in tuple(part.host.sockets):
                socket.close()

    def _here(self) -> Host:
        life = current.get()
        if life is None:
            msg = "a socket was asked for outside of all parts of the simulation"
            raise SimulationError(msg)
        if life.is_over:
            raise OSError(errno.ENETDOWN, os.strerror(errno.ENETDOWN))
        return life.part.host

    def _seen(self, connection: MemoryConnection, direction: int, data: bytes) -> None:
        now = self.now()
        data = data.replace(self._folder_bytes, b"/" * len(self._folder_bytes))  # errors of stores may name it
        self._hash.update(b"%.9f %d %d " % (now, connection.number, direction))
        self._hash.update(data)
        if self.on_bytes is not None:
            self.on_bytes(now, connection, direction, data)

    def _thread_delay_s(self) -> float:
        return 0.001 * self._threads.random()


class _LogLines(logging.Handler):
    def __init__(self, lines: list[str], failures: list[str], now: Callable[[], float]) -> None:
        super().__init__()
        self._lines = lines
        self._failures = failures
        self._now = now

    def emit(self, record: logging.LogRecord) -> None:
        life = current.get()
        if len(self._lines) < _LOG_LINES and (life is None or not life.is_over):
            if record.exc_info and record.exc_info[1] is not None and record.levelno >= logging.ERROR:
                error = record.exc_info[1]
                if record.name.partition(".")[0] in _WATCHED:
                    self._failures.append(f"{record.getMessage()}: {type(error).__name__}: {error}".partition("\n")[0])
            self._lines.append(f"{self._now():.6f} {record.levelname} {record.name}: {self.format(record)}")


@contextmanager
def _gathered(lines: list[str], failures: list[str], now: Callable[[], float]) -> Iterator[None]:
    """Gather what rstreams, trio and the programs log."""
    handler = _LogLines(lines, failures, now)
    loggers = [logging.getLogger(name) for name in _WATCHED]
    logging.getLogger().addHandler(handler)
    propagated = [logger.propagate for logger in loggers]
    LINES_OF_THREADS.forget()  # what was counted before would be told here
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        for logger, propagate in zip(loggers, propagated, strict=True):
            logger.removeHandler(handler)
            logger.propagate = propagate


def _memory() -> str | None:
    """Return a folder in memory, where syncs cost nothing; None: the usual one for temporary files."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - the folder below it is new


@cache
def _remove_left() -> None:
    """Remove the folders of processes that were killed; once is enough."""
    for folder in Path(_memory() or tempfile.gettempdir()).glob(f"{_FOLDER}*"):
        process = folder.name.removeprefix(_FOLDER).partition("-")[0]
        if process.isdecimal() and not _lives(int(process)):
            shutil.rmtree(folder, ignore_errors=True)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # it is somebody else's
    return True


@contextmanager
def simulation(seed: int = 0, *, limit_s: float = math.inf) -> Iterator[World]:
    """Set up a world in the block, and run it when the block ends.

        with simulation(7) as world:
            url = world.node("shop", declare)
            world.start(buy, url, name="customer")
            world.at(2.0, world.kill, "shop")

    Args:
        seed: The same seed gives the same run, byte for byte.
        limit_s: The longest time that the run may take, in seconds of its own clock.

    Errors: What a program has raised; `SimulationError` for what a simulation cannot do, or if the time is over.
    Context: A thread in which no trio runs. For the time of the run, nothing else may run in the process.
    """
    world = World(seed, limit_s)
    yield world
    try:
        world.run()
    except BaseException as error:
        error.add_note(f"this was the simulation with seed {seed}")
        raise
