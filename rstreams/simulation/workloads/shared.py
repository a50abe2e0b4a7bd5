"""Runs that several subscribers share: they come and leave at any moment, in every way, while the connection breaks."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Sequence
from typing import Final, Literal

import trio

import rstreams
from rstreams import Stream
from rstreams.errors import StreamTimeout
from rstreams.simulation.part import current
from rstreams.simulation.weather import OF_PAIRS, Kind
from rstreams.simulation.workloads._programs import IDLE_S, BrokenPromiseError, connected
from rstreams.simulation.world import World

Way = Literal["stay", "break", "take", "raise", "cancel", "timeout"]
"""How a subscriber leaves."""

_PATIENCE_S: Final = 120.0
"""After how long a subscriber that has not ended counts as stalled."""

_FAULTY_S: Final = 2.0
"""When no further fault begins."""

_BY_ITSELF: Final[Sequence[Way]] = ("stay", "break", "take", "raise")
"""Ways that are taken only when items have come."""

_WAYS: Final[Sequence[Way]] = ("stay", "stay", "break", "take", "raise", "cancel", "timeout")

_ENDS: Final = frozenset({"share", "ref_count", "broadcast", "distribute", "partition", "group_by", "window_count"})
"""The operators whose run ends with its last subscriber."""

_OPERATORS: Final = (*sorted(_ENDS), "auto_connect", "replay", "cache")


class _LeaveError(Exception):
    """What the code of one subscriber raises."""


class _Office:
    """A program with a source, one run of it, and its subscribers."""

    def __init__(self, world: World) -> None:
        random = world.random
        self.world = world
        self.operator = random.choice(_OPERATORS)
        self.is_remote = random.random() < 0.6
        self.count = random.choice((3, 12, 40))
        self.period_s = random.choice((0.001, 0.02, 0.2))
        self.window = random.choice((1, 3, 256))
        self.members = world.how_many(1, 3)
        self.produced = 0
        self._random = world.numbers("office")

    def declare(self, node: rstreams.Node) -> None:
        """Serve the numbers from a position on, also after a restart."""
        node.serve("numbers", from_offset=self._numbers)

    def _numbers(self, position: int) -> Stream[int]:
        return Stream.range(position, self.count).delay_each(self.period_s)

    async def run(self, url: str) -> None:
        """Have the subscribers come and leave; then check that nothing runs on."""
        before = _tasks()
        with trio.move_on_after(_PATIENCE_S) as patience:
            if self.is_remote:
                async with connected(url, "office") as connection:
                    source = connection.stream("numbers", start="first", window=self._random.choice((1, 4, 256)))
                    await self._share(source.do_on_next(self._produce))
            else:
                await self._share(self._numbers(0).do_on_next(self._produce))
        if patience.cancelled_caught:
            msg = f"{self.operator}: a subscriber, or the end of the run, still waits after {_PATIENCE_S} s"
            raise BrokenPromiseError(msg)
        await trio.sleep(1.0)
        if _tasks() > before:
            gc.collect()  # a run that nobody can join any more ends
            await trio.sleep(1.0)
        if _tasks() > before:
            msg = f"{self.operator}: {_tasks() - before} tasks run on when all have left"
            raise BrokenPromiseError(msg)

    def _produce(self, _item: int) -> None:
        self.produced += 1

    async def _share(self, source: Stream[int]) -> None:
        async with trio.open_nursery() as nursery:
            match self.operator:
                case "group_by":
                    keys = self._random.randint(1, 3)
                    groups = source.group_by(lambda number: number % keys)
                    await self._loop(groups, nursery, keys)
                case "window_count":
                    size = self._random.randint(1, 5)
                    await self._loop(source.window_count(size), nursery, None, size)
                case "partition":
                    keys = self.members
                    parts = source.partition(lambda number: number % keys, keys, window=self.window)
                    for part in parts:
                        nursery.start_soon(self._member, part, self._way(_BY_ITSELF), 0.0, self._judge_step(keys))
                case _:
                    self._begin_members(source, nursery)
        produced = self.produced
        await trio.sleep(1.0)
        if self.operator in _ENDS and self.produced != produced:
            msg = f"{self.operator}: {self.produced - produced} items were produced when all had left"
            raise BrokenPromiseError(msg)

    def _begin_members(self, source: Stream[int], nursery: trio.Nursery) -> None:
        members, window = self.members, self.window
        make: dict[str, Callable[[], Stream[int]]] = {
            "share": lambda: source.share(window=window),
            "ref_count": lambda: source.publish(window=window).ref_count(members),
            "auto_connect": lambda: source.publish(window=window).auto_connect(members),
            "replay": lambda: source.replay(self._random.choice((1, 5)), window=window).auto_connect(members),
            "cache": source.cache,
            "broadcast": lambda: source.broadcast(subscribers=members, window=window),
            "distribute": lambda: source.distribute(subscribers=members, window=window),
        }
        stream = make[self.operator]()
        judge = self._judge_step(1)
        if self.operator == "distribute":
            judge = self._judge_distributed(set())
        waits_for_all = self.operator in {"ref_count", "auto_connect", "replay", "broadcast", "distribute"}
        for _ in range(members):
            ways = _BY_ITSELF if waits_for_all else _WAYS
            nursery.start_soon(self._member, stream, self._way(ways), 0.0, judge)
        for _ in range(self._random.randint(0, 2)):
            join_s = self.count * self.period_s * self._random.random() * 1.2
            ways = ("cancel",) if self.operator in {"ref_count", "broadcast", "distribute"} else _WAYS
            if self.operator == "distribute":
                judge = self._judge_distributed(set())  # it may be the first one of another run
            nursery.start_soon(self._member, stream, self._way(ways), join_s, judge)

    def _way(self, ways: Sequence[Way]) -> Way:
        return self._random.choice(ways)

    async def _loop(
        self,
        streams: Stream[Stream[int]],
        nursery: trio.Nursery,
        keys: int | None,
        size: int | None = None,
    ) -> None:
        """Give each group or window its subscriber; end the loop early in some runs."""
        left = self._random.choice((None, 1, 2))
        async with streams.open() as loop:
            async for stream in loop:
                judge = self._judge_step(keys) if keys else self._judge_window(size or 1)
                await nursery.start(self._member_of, stream, self._way(_WAYS), judge)
                left = None if left is None else left - 1
                if left == 0:
                    break

    async def _member_of(
        self,
        stream: Stream[int],
        way: Way,
        judge: Callable[[list[int], Way, bool], None],
        task_status: trio.TaskStatus[None],
    ) -> None:
        await self._member(stream, way, 0.0, judge, task_status.started)

    async def _member(
        self,
        stream: Stream[int],
        way: Way,
        join_s: float,
        judge: Callable[[list[int], Way, bool], None],
        is_there: Callable[[], object] = lambda: None,
    ) -> None:
        """Join the run, take items, and leave."""
        random, most = self._random, self._random.randint(1, 6)
        pause_s = random.choice((0.0, 0.001, 0.05))
        limit_s = random.choice((0.0, 0.01, 0.3)) if way == "cancel" else math.inf
        await trio.sleep(join_s)
        got: list[int] = []
        ended = False
        match way:
            case "take":
                stream = stream.take(most)
            case "raise":
                stream = stream.map(_raising_at(most))
            case "timeout":
                stream = stream.timeout(random.choice((0.01, 0.1)))
            case _:
                pass
        try:
            with trio.move_on_after(limit_s):
                async with stream.open(window=random.choice((1, 2, 256))) as loop:
                    is_there()
                    async for item in loop:
                        got.append(item)
                        await trio.sleep(pause_s * random.random())
                        if way == "break" and len(got) == most:
                            break
                    else:
                        ended = True
        except _LeaveError:
            pass
        except StreamTimeout:
            if way != "timeout":
                raise
        judge(got, way, ended)

    # what each subscriber is owed

    def _judge_step(self, step: int) -> Callable[[list[int], Way, bool], None]:
        def judge(got: list[int], way: Way, ended: bool) -> None:  # noqa: FBT001 - a fact
            expected = list(range(got[0], self.count, step)) if got else []
            is_first = self.operator != "cache" or not got or got[0] == 0
            self._require(got == expected[: len(got)] and is_first, "an item is missing, or out of order", got, way)
            if way == "stay":
                self._require(ended and got == expected, "a subscriber that stayed got not all", got, way)

        return judge

    def _judge_window(self, size: int) -> Callable[[list[int], Way, bool], None]:
        step = self._judge_step(1)

        def judge(got: list[int], way: Way, ended: bool) -> None:  # noqa: FBT001 - a fact
            step(got, "take", ended)
            if way == "stay":
                is_whole = ended and bool(got) and (len(got) == size or got[-1] == self.count - 1)
                self._require(is_whole and got[0] % size == 0, f"a window of {size} is not whole", got, way)

        return judge

    def _judge_distributed(self, all_got: set[int]) -> Callable[[list[int], Way, bool], None]:
        def judge(got: list[int], way: Way, ended: bool) -> None:  # noqa: FBT001 - a fact
            self._require(
                got == sorted(got) and all_got.isdisjoint(got), "an item is out of order, or came twice", got, way
            )
            self._require(ended or way != "stay", "a subscriber that stayed did not end", got, way)
            all_got.update(got)

        return judge

    def _require(self, is_so: bool, text: str, got: list[int], way: Way) -> None:  # noqa: FBT001 - a fact
        if not is_so:
            msg = f"{self.operator} of {self.count} numbers: {text}: {got} (way {way!r})"
            raise BrokenPromiseError(msg)


def _raising_at(most: int) -> Callable[[int], int]:
    left = most

    def step(item: int) -> int:
        nonlocal left
        left -= 1
        if not left:
            raise _LeaveError
        return item

    return step


def _tasks() -> int:
    """Return how many tasks of this life of this part there are."""
    life, found = current.get(), 0
    tasks = [trio.lowlevel.current_root_task()]
    while tasks:
        task = tasks.pop()
        if task is not None:
            found += task.context.get(current) is life
            tasks += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return found


def workload(world: World) -> None:
    """Set up a node that serves numbers, and a program in which several subscribers share a run."""
    office = _Office(world)
    url = world.node("node", office.declare, idle_timeout_s=IDLE_S)
    world.start(office.run, url, name="office")
    if office.is_remote:
        kinds: tuple[Kind, ...] = ("kill", "power", *OF_PAIRS)
        world.weather(parts=["node"], pairs=[("office", "node")], kinds=kinds, until_s=_FAULTY_S, most=16)
        world.start(trio.sleep_until, _FAULTY_S + 2.5, name="referee")
