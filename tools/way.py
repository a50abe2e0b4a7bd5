"""Counts what rstreams does for one item: calls, files, classes, and steps from one room to another.

    python tools/way.py                      the three walks
    python tools/way.py --list item          each call of a walk, in its order
    python tools/way.py --files item         the files of a walk, and what is called in each
    python tools/way.py --since REVISION     also the lines of code, beside those of another revision
    python tools/way.py --json FILE

A program with a node, a sender and a consumer runs in one process, over TCP. It waits until nothing moves. Then one
thing is done, and each call in rstreams is counted, until it has arrived, and then until nothing moves again:

- item: `await sender.send(b"...")` to a queue, until `async for` has the item; then it is acknowledged, to the sender;
- request: `subscription.request(1)` of a subscriber without demand, until the queue has it;
- accept: `delivery.accept()` of a message, until the queue has removed it.

A call is one of a Python function of rstreams (also when a coroutine goes on). The calls of C functions by rstreams are
counted beside them. A file and a class count if one of their functions was called. A *room* is a folder of rstreams, or
a folder of `net`. Of several trials, the one with the median number of calls is told.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import subprocess
import sys
import tarfile
import tokenize
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import trio
import trio.testing

import rstreams
from rstreams import Node, Stream
from rstreams.runtime.scope import Scope
from rstreams.testing import ProbeSubscriber

ROOT: Final = Path(rstreams.__file__).parent
TRIALS: Final = 15
_QUIET_S: Final = 0.01
_RESULT: Final = Path("build/way/way.json")


def room_of(file: str) -> str:
    """Return the room of a file, such as "node" or "net/links"."""
    parts = Path(file).relative_to(ROOT).parts
    if len(parts) == 1:
        return "rstreams"
    return "/".join(parts[: 2 if parts[0] == "net" and len(parts) > 2 else 1])


@dataclass(slots=True)
class Walk:
    """What was called, in its order.

    Attributes:
        all_calls: Each call: who called, and what.
    """

    all_calls: list[tuple[CodeType | None, CodeType | str]] = field(default_factory=list)

    @property
    def calls(self) -> list[tuple[CodeType | None, CodeType]]:
        """The calls of Python functions."""
        return [(caller, called) for caller, called in self.all_calls if isinstance(called, CodeType)]

    @property
    def functions(self) -> set[CodeType]:
        """The Python functions that were called."""
        return {called for _, called in self.calls}

    def until(self, room: str) -> Walk:
        """Return its begin, up to the last call that another room made in a room."""
        last = max(
            at
            for at, (caller, called) in enumerate(self.all_calls)
            if isinstance(called, CodeType)
            and room_of(called.co_filename) == room
            and (caller is None or room_of(caller.co_filename) != room)
        )
        return Walk(self.all_calls[: last + 1])

    @property
    def files(self) -> set[str]:
        """Their files."""
        return {each.co_filename for each in self.functions}

    @property
    def classes(self) -> set[tuple[str, str]]:
        """Their classes."""
        names = {(each.co_filename, each.co_qualname.partition(".<locals>")[0]) for each in self.functions}
        return {(file, name.rpartition(".")[0]) for file, name in names if "." in name}

    @property
    def crossings(self) -> Counter[tuple[str, str]]:
        """How often a function of one room called one of another."""
        found: Counter[tuple[str, str]] = Counter()
        for caller, called in self.calls:
            if caller is None:
                continue
            rooms = room_of(caller.co_filename), room_of(called.co_filename)
            if rooms[0] != rooms[1]:
                found[rooms] += 1
        return found

    def lines_by_file(self) -> Iterator[str]:
        """Yield a line for each file: how often each of its functions was called."""
        called = Counter(code for _, code in self.calls)
        for file in sorted(self.files):
            told = (f"{code.co_qualname} {times}" for code, times in called.items() if code.co_filename == file)
            yield f"{Path(file).relative_to(ROOT)}: {', '.join(told)}"

    def lines(self) -> Iterator[str]:
        """Yield a line for each call."""
        for caller, called in self.all_calls:
            by = "a task" if caller is None else f"{caller.co_qualname}"
            if isinstance(called, str):
                yield f"    {called}, by {by}"
            else:
                yield f"{Path(called.co_filename).relative_to(ROOT)} {called.co_qualname}, by {by}"


class _Recorder:
    """Records calls while it is set."""

    def __init__(self) -> None:
        self.walk = Walk()
        self._inside = str(ROOT) + os.sep

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:  # noqa: ANN401 - as `sys.setprofile` wants it
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(self._inside):
            self.walk.all_calls.append((self._caller(frame.f_back), code))
        elif event == "c_call" and code.co_filename.startswith(self._inside):
            self.walk.all_calls.append((code, getattr(arg, "__qualname__", repr(arg))))

    def _caller(self, frame: FrameType | None) -> CodeType | None:
        while frame is not None and not frame.f_code.co_filename.startswith(self._inside):
            frame = frame.f_back
        return None if frame is None else frame.f_code


async def record(act: Callable[[], Awaitable[object] | None]) -> Walk:
    """Return the calls of what `act` does, and of what follows from it."""
    await trio.testing.wait_all_tasks_blocked(_QUIET_S)
    recorder = _Recorder()
    sys.setprofile(recorder)
    try:
        done = act()
        if done is not None:
            await done
        await trio.testing.wait_all_tasks_blocked(_QUIET_S)
    finally:
        sys.setprofile(None)
    return recorder.walk


def middle(walks: list[Walk]) -> Walk:
    """Return the walk with the median number of calls."""
    return sorted(walks, key=lambda walk: len(walk.calls))[len(walks) // 2]


async def walk_item(url: str) -> Walk:
    """Send an item through a queue to an `async for`."""
    walks: list[Walk] = []
    async with rstreams.connect(url) as producer, rstreams.connect(url) as consumer, trio.open_nursery() as tasks:

        async def consume() -> None:
            async with consumer.stream("items").open() as items:
                async for _ in items:
                    pass

        tasks.start_soon(consume)
        async with producer.sender("items") as sender:
            walks = [await record(lambda: sender.send(b"an item")) for _ in range(TRIALS)]
        tasks.cancel_scope.cancel()
    return middle(walks)


async def walk_request(url: str) -> Walk:
    """Request an item of a queue."""
    probe: ProbeSubscriber[bytes] = ProbeSubscriber(0)
    walks: list[Walk] = []
    async with rstreams.connect(url) as connection, Scope():
        connection.stream("requests").subscribe(probe)
        walks = [await record(lambda: probe.request(1)) for _ in range(TRIALS)]
        probe.cancel()
    return middle(walks)


async def walk_accept(url: str) -> Walk:
    """Accept a message by hand."""
    walks: list[Walk] = []
    async with rstreams.connect(url) as connection:
        await connection.publish("accepts", Stream.of(*range(TRIALS)))
        async with connection.stream("accepts", settlement="manual").open() as deliveries:
            taken = [await anext(deliveries) for _ in range(TRIALS)]
            walks = [await record(each.accept) for each in taken]
    return middle(walks)


WALKS: Final = {"item": (walk_item, "runtime"), "request": (walk_request, "node"), "accept": (walk_accept, "node")}
"""Each walk, and the room in which it arrives."""


async def take_walks() -> dict[str, Walk]:
    """Take each walk at a node."""
    async with Node() as node:
        for address in ("items", "requests", "accepts"):
            node.queue(address)
        listener = await node.listen("127.0.0.1:0")
        return {name: await walk(listener.url) for name, (walk, _) in WALKS.items()}


@dataclass(frozen=True, slots=True)
class Lines:
    """The size of a tree.

    Attributes:
        engine: Lines of `net/_proton`, with its C.
        product: Lines of `rstreams/` without `simulation/`, with C.
        code: Lines of Python in it that are neither empty, nor comments, nor docstrings.
    """

    engine: int
    product: int
    code: int


def code_lines(source: bytes) -> int:
    """Return the number of lines of a Python file that are neither empty, nor comments, nor docstrings."""
    filled: set[int] = set()
    beside = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
    }
    for token in tokenize.tokenize(io.BytesIO(source).readline):
        if token.type not in beside:
            filled.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        # A text that stands alone is the docstring of what stands above it.
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            filled.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(filled)


def lines_of(files: dict[str, bytes]) -> Lines:
    """Return the size of a tree."""
    product = {
        name: text
        for name, text in files.items()
        if name.startswith("rstreams/") and name.endswith((".py", ".c", ".h")) and "/simulation/" not in name
    }
    return Lines(
        sum(text.count(b"\n") for name, text in product.items() if name.startswith("rstreams/net/_proton/")),
        sum(text.count(b"\n") for text in product.values()),
        sum(code_lines(text) for name, text in product.items() if name.endswith(".py")),
    )


def _revision(name: str) -> str:
    try:
        _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    except subprocess.CalledProcessError:
        msg = f"{name!r:.80}: there is no such revision"
        raise argparse.ArgumentTypeError(msg) from None
    return name


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], check=True, stdout=subprocess.PIPE).stdout  # noqa: S607 - the PATH's git


def files_of(revision: str) -> dict[str, bytes]:
    """Return the files of a revision of this tree."""
    with tarfile.open(fileobj=io.BytesIO(_git("archive", revision, "rstreams"))) as archive:
        opened = ((each.name, archive.extractfile(each)) for each in archive if each.isfile())
        return {name: file.read() for name, file in opened if file is not None}


def files_here() -> dict[str, bytes]:
    """Return the files of this tree that git knows, or would take."""
    listed = _git("ls-files", "-co", "--exclude-standard", "rstreams").decode().splitlines()
    return {name: Path(name).read_bytes() for name in listed if Path(name).exists()}


def _figures(whole: Walk, room: str) -> dict[str, Any]:
    walk = whole.until(room)
    return {
        "calls": len(walk.calls),
        "files": len(walk.files),
        "classes": len(walk.classes),
        "c_calls": len(walk.all_calls) - len(walk.calls),
        "calls_until_quiet": len(whole.calls),
        "c_calls_until_quiet": len(whole.all_calls) - len(whole.calls),
        "crossings": {f"{one} -> {other}": n for (one, other), n in walk.crossings.most_common()},
    }


def _print(walks: dict[str, dict[str, Any]]) -> None:
    print("until it has arrived; C calls; until nothing moves")
    print(f"{'walk':10}{'calls':>7}{'files':>7}{'classes':>9}{'C calls':>9}{'calls':>9}{'C calls':>9}")
    for name, row in walks.items():
        first = f"{name:10}{row['calls']:7}{row['files']:7}{row['classes']:9}{row['c_calls']:9}"
        print(f"{first}{row['calls_until_quiet']:9}{row['c_calls_until_quiet']:9}")
    for name, walk in walks.items():
        print(f"\nfrom room to room, {name}:")
        for rooms, times in walk["crossings"].items():
            print(f"  {rooms:40}{times:4}")


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="way", description="Counts what rstreams does for one item.")
    parser.add_argument("--list", choices=WALKS, help="print the calls of this walk")
    parser.add_argument("--files", choices=WALKS, help="print the files of this walk, until it has arrived")
    parser.add_argument(
        "--since", metavar="REVISION", type=_revision, help="print the lines of code beside those of this revision"
    )
    parser.add_argument("--walks", action="store_true", help="print the walks as JSON, and no more")
    parser.add_argument("--json", type=Path, default=_RESULT, metavar="FILE")
    options = parser.parse_args()
    walks = trio.run(take_walks)
    if options.list:
        print(*walks[options.list].lines(), sep="\n")
        return 0
    if options.files:
        print(*walks[options.files].until(WALKS[options.files][1]).lines_by_file(), sep="\n")
        return 0
    found = {name: _figures(walks[name], room) for name, (_, room) in WALKS.items()}
    if options.walks:
        json.dump(found, sys.stdout)
        return 0
    _print(found)
    sizes = {"here": lines_of(files_here())}
    if options.since:
        sizes[options.since] = lines_of(files_of(options.since))
    print(f"\n{'lines':20}{'net/_proton':>12}{'rstreams':>10}{'code alone':>12}")
    for name, size in sizes.items():
        print(f"{name:20}{size.engine:12}{size.product:10}{size.code:12}")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    report = {"walks": found, "lines": {name: asdict(size) for name, size in sizes.items()}}
    options.json.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
