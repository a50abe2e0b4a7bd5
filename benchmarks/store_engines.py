"""What the store was chosen by: sqlite3, lmdb, rocksdict and plain segment files, with messages of 1 KB.

    python -m benchmarks.store_engines [--gigabytes 1] [--folder DIR]

lmdb and rocksdict are measured where they are installed; rstreams does not need them. For each engine it prints:

    commit N    messages a second, and the median and 99th percentile of a commit, synced, of N messages
    delete      messages a second, the oldest first, 256 in a synced commit
    growth      messages a second while the store grows to so many gigabytes, unsynced; its size then and when all
                messages are deleted; the seconds to open it and read the first message
    killed      a process that commits 16 messages at a time is killed (-9) 5 times: commits it was sure of and lost
    flipped     one bit of its files is flipped, 40 times: how often that was noticed, and how often messages were
                missing or changed without an error
"""

# ruff: noqa: D102 - `Engine` describes the methods of all engines
from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final, Protocol

MESSAGE: Final = random.Random(1).randbytes(1024)  # noqa: S311 - filler
SIZES: Final = ((1, 300), (16, 4_800), (256, 51_200), (2_048, 102_400))
KILLS: Final = 5
COMMITS_BEFORE_KILL: Final = 100
FLIPS: Final = 40
ERROR: Final = "a checksum is wrong"


class Engine(Protocol):
    """A store of messages in runs, each under the number of its first message."""

    def append(self, first: int, run: Sequence[bytes], *, sync: bool) -> None:
        """Commit messages."""

    def delete(self, first: int, count: int) -> None:
        """Delete a run, synced."""

    def read(self) -> Iterator[tuple[int, bytes]]:
        """Return the runs in their order: the first number and the joined messages."""
        ...

    def close(self) -> None:
        """Close the files."""


class Sqlite:
    """SQLite with a write-ahead log. One row for a run, or one for each message (`rows`)."""

    def __init__(self, path: Path, *, rows: bool = False) -> None:
        self._rows = rows
        self._db = sqlite3.connect(path / "s.db", isolation_level=None)
        for option in ("page_size=8192", "journal_mode=WAL", "cache_size=-8192", "wal_autocheckpoint=2000"):
            self._db.execute(f"PRAGMA {option}").fetchall()
        self._db.execute("CREATE TABLE IF NOT EXISTS m(n INTEGER PRIMARY KEY, crc INTEGER, data BLOB)")

    def append(self, first: int, run: Sequence[bytes], *, sync: bool) -> None:
        self._db.execute(f"PRAGMA synchronous={'FULL' if sync else 'NORMAL'}")
        self._db.execute("BEGIN")
        if self._rows:
            rows = [(first + at, zlib.crc32(each), each) for at, each in enumerate(run)]
        else:
            body = b"".join(run)
            rows = [(first, zlib.crc32(body), body)]
        self._db.executemany("INSERT INTO m VALUES(?, ?, ?)", rows)
        self._db.execute("COMMIT")

    def delete(self, first: int, count: int) -> None:
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("DELETE FROM m WHERE n >= ? AND n < ?", (first, first + count))

    def read(self) -> Iterator[tuple[int, bytes]]:
        for number, crc, data in self._db.execute("SELECT n, crc, data FROM m ORDER BY n"):
            if zlib.crc32(data) != crc:
                raise OSError(ERROR)
            yield number, data

    def close(self) -> None:
        self._db.close()


class Lmdb:
    """LMDB, one value for a run."""

    def __init__(self, path: Path) -> None:
        self._env: Any = importlib.import_module("lmdb").open(str(path / "l"), map_size=1 << 36, sync=True)

    def append(self, first: int, run: Sequence[bytes], *, sync: bool) -> None:  # noqa: ARG002 - decided when opened
        with self._env.begin(write=True) as transaction:
            body = b"".join(run)
            transaction.put(first.to_bytes(8, "big"), zlib.crc32(body).to_bytes(4, "big") + body, append=True)

    def delete(self, first: int, count: int) -> None:  # noqa: ARG002 - a run is one value
        with self._env.begin(write=True) as transaction:
            transaction.delete(first.to_bytes(8, "big"))

    def read(self) -> Iterator[tuple[int, bytes]]:
        with self._env.begin() as transaction:
            for key, value in transaction.cursor():
                if zlib.crc32(value[4:]) != int.from_bytes(value[:4], "big"):
                    raise OSError(ERROR)
                yield int.from_bytes(key, "big"), value[4:]

    def close(self) -> None:
        self._env.close()


class Rocks:
    """RocksDB, one value for a run."""

    def __init__(self, path: Path) -> None:
        self._module: Any = importlib.import_module("rocksdict")
        self._db = self._module.Rdict(str(path / "r"), self._module.Options(raw_mode=True))
        self._synced = self._module.WriteOptions()
        self._synced.sync = True

    def append(self, first: int, run: Sequence[bytes], *, sync: bool) -> None:
        batch = self._module.WriteBatch(raw_mode=True)
        batch.put(first.to_bytes(8, "big"), b"".join(run))
        self._db.write(batch, self._synced if sync else self._module.WriteOptions())

    def delete(self, first: int, count: int) -> None:  # noqa: ARG002 - a run is one value
        self._db.delete(first.to_bytes(8, "big"), write_opt=self._synced)

    def read(self) -> Iterator[tuple[int, bytes]]:
        for key, value in self._db.items():
            yield int.from_bytes(key, "big"), value

    def close(self) -> None:
        self._db.close()


class Segments:
    """Plain files of 64 MB: each run behind its size, number and checksum. A deleted run is a record of its own."""

    FULL: Final = 64 * 1024 * 1024

    def __init__(self, path: Path) -> None:
        self._path = path
        self._left: dict[int, set[int]] = {}
        self._place: dict[int, int] = {}
        self._file, self._number, self._size = -1, max((int(each.name) for each in path.iterdir()), default=-1), 0
        for name in sorted(int(each.name) for each in path.iterdir()):
            self._left[name] = {first for first, _ in self._scan(name)}
            self._place.update(dict.fromkeys(self._left[name], name))
        self._next()

    def _next(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._number += 1
        self._left[self._number] = set()
        self._file = os.open(self._path / str(self._number), os.O_RDWR | os.O_CREAT | os.O_APPEND)
        self._size = 0

    def _write(self, first: int, body: bytes, *, sync: bool) -> None:
        head = len(body).to_bytes(8, "big") + first.to_bytes(8, "big")
        self._size += os.write(self._file, zlib.crc32(body, zlib.crc32(head)).to_bytes(4, "big") + head + body)
        if sync:
            os.fdatasync(self._file)

    def append(self, first: int, run: Sequence[bytes], *, sync: bool) -> None:
        if self._size > self.FULL:
            self._next()
        self._write(first, b"".join(run), sync=sync)
        self._left[self._number].add(first)
        self._place[first] = self._number

    def delete(self, first: int, count: int) -> None:  # noqa: ARG002 - a run is one record
        self._write(first, b"", sync=True)
        number = self._place.pop(first)
        left = self._left.get(number, set())
        left.discard(first)
        if not left and number != self._number:
            (self._path / str(number)).unlink()

    def read(self) -> Iterator[tuple[int, bytes]]:
        for name in sorted(int(each.name) for each in self._path.iterdir()):
            yield from self._scan(name)

    def _scan(self, name: int) -> Iterator[tuple[int, bytes]]:
        data = (self._path / str(name)).read_bytes()
        at = 0
        while at < len(data):
            head = data[at + 4 : at + 20]
            body = data[at + 20 : at + 20 + int.from_bytes(head[:8], "big")]
            if zlib.crc32(body, zlib.crc32(head)).to_bytes(4, "big") != data[at : at + 4]:
                break  # torn
            if body:
                yield int.from_bytes(head[8:], "big"), body
            at += 20 + len(body)

    def close(self) -> None:
        os.close(self._file)


ENGINES: Final[dict[str, Callable[[Path], Engine]]] = {
    "segments": Segments,
    "sqlite3": Sqlite,
    "sqlite3, a row each": lambda path: Sqlite(path, rows=True),
    "lmdb": Lmdb,
    "rocksdict": Rocks,
}


def size_of(path: Path) -> float:
    """Return the megabytes on disk below a directory."""
    return sum(each.stat().st_blocks for each in path.rglob("*") if each.is_file()) * 512 / 1e6


def commits(name: str, path: Path) -> str:
    """Measure commits of several sizes, then deletions."""
    figures, deleted = [], ""
    for size, total in SIZES:
        shutil.rmtree(path)
        path.mkdir()
        engine = ENGINES[name](path)
        run, times = [MESSAGE] * size, []
        cpu = time.process_time()
        for at in range(total // size):
            begin = time.perf_counter()
            engine.append(at * size, run, sync=True)
            times.append(time.perf_counter() - begin)
        cpu = time.process_time() - cpu
        times.sort()
        figures.append(
            f"  commit {size:4}: {total / sum(times):9,.0f}/s  median {1e3 * median(times):6.2f} ms  99th "
            f"{1e3 * times[int(0.99 * len(times))]:6.2f} ms  cpu {1e6 * cpu / total:6.1f} us a message"
        )
        if size == 256:
            begin = time.perf_counter()
            for at in range(total // size):
                engine.delete(at * size, size)
            deleted = f"  delete     : {total / (time.perf_counter() - begin):9,.0f}/s"
        engine.close()
    return "\n".join([*figures, deleted])


def growth(name: str, path: Path, gigabytes: float) -> str:
    """Measure a store that grows."""
    engine, run, total = ENGINES[name](path), [MESSAGE] * 256, int(gigabytes * 1e9) // 1024 // 256
    begin = time.perf_counter()
    for at in range(total):
        engine.append(at * 256, run, sync=at % 64 == 0)
    rate = total * 256 / (time.perf_counter() - begin)
    engine.close()
    full = size_of(path)
    begin = time.perf_counter()
    engine = ENGINES[name](path)
    next(engine.read())
    opened = time.perf_counter() - begin
    for at in range(total):
        engine.delete(at * 256, 256)
    engine.close()
    text = f"{rate:9,.0f}/s to {full:,.0f} MB, {size_of(path):,.0f} MB when empty, open {opened:.2f} s"
    return f"  growth     : {text}"


def killed(name: str, path: Path) -> str:
    """Kill a process that commits; count what is missing."""
    lost = sure = 0
    for _ in range(KILLS):
        shutil.rmtree(path)
        path.mkdir()
        command = [sys.executable, "-m", "benchmarks.store_engines", "--commit", name, "--folder", str(path)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        told = [process.stdout.readline() for _ in range(COMMITS_BEFORE_KILL)]
        process.send_signal(signal.SIGKILL)
        told += process.communicate()[0].splitlines(keepends=True)
        last = int([line for line in told if line.endswith("\n")][-1])
        engine = ENGINES[name](path)
        found = {number for number, _ in engine.read()}
        engine.close()
        sure += last + 1
        lost += sum(at * 16 not in found for at in range(last + 1))
    return f"  killed     : {lost} of {sure} commits lost"


def flipped(name: str, path: Path) -> str:
    """Flip single bits; count what is noticed."""
    chance = random.Random(1)  # noqa: S311 - a choice
    shutil.rmtree(path)
    path.mkdir()
    engine = ENGINES[name](path)
    for at in range(100):
        engine.append(at * 16, [MESSAGE] * 16, sync=False)
    engine.close()
    noticed = silent = 0
    for _ in range(FLIPS):
        copy = path.parent / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(path, copy)
        file = chance.choice([each for each in copy.rglob("*") if each.is_file() and each.stat().st_size])
        data = bytearray(file.read_bytes())
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        file.write_bytes(data)
        try:
            engine = ENGINES[name](copy)
            found = list(engine.read())
            engine.close()
            silent += found != [(at * 16, MESSAGE * 16) for at in range(100)]
        except Exception:  # each engine has its own
            noticed += 1
    return f"  flipped    : noticed {noticed}, wrong without an error {silent}, harmless {FLIPS - noticed - silent}"


def commit_until_killed(name: str, path: Path) -> None:
    """Commit, and tell the number of each commit that is sure."""
    engine = ENGINES[name](path)
    for at in range(1_000_000):
        engine.append(at * 16, [MESSAGE] * 16, sync=True)
        print(at, flush=True)


def main() -> None:
    """Measure all engines that are installed."""
    parser = argparse.ArgumentParser(description="engines for the store of a node")
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--commit", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.commit:
        commit_until_killed(arguments.commit, arguments.folder)
        return
    with tempfile.TemporaryDirectory(prefix="rstreams-engines-", dir=arguments.folder) as folder:
        for name in ENGINES:
            path = Path(folder) / "store"
            path.mkdir()
            with contextlib.suppress(ModuleNotFoundError):
                ENGINES[name](path).close()
                print(name)
                print(commits(name, path), flush=True)
                shutil.rmtree(path)
                path.mkdir()
                print(growth(name, path, arguments.gigabytes), flush=True)
                if name != "sqlite3, a row each":
                    print(killed(name, path), flush=True)
                    print(flipped(name, path), flush=True)
            shutil.rmtree(path)


if __name__ == "__main__":
    main()
