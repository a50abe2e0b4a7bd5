"""A store on a disk that fails, in a process with `failing_disk.c`: prints a line for each point that goes wrong.

    python -m tests.store.on_failing_disk FOLDER SEED POINTS

Each point plays the same changes, and has one call of the system fail, or all from one on until the disk is mended.
Then the store must have, without any further change, everything that it accepted and everything that may not be
refused; also after the process was killed, and after a close.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import random
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

from rstreams.errors import StoreError
from rstreams.store import Store, StoreDamaged, StoreFull, store, writer
from tests.store.stores import Used

KINDS: Final = {"write": 1, "sync": 2, "read": 4, "open": 8}
ERRORS: Final = (errno.EIO, errno.ENOSPC, errno.EDQUOT)
UNTIL_MENDED: Final = -1
DISK: Final = ctypes.CDLL(None)

Content = dict[str, Any]


def fails(folder: Path, kinds: int, after: int, times: int, error: int) -> None:
    DISK.disk_fails(str(folder).encode(), *map(ctypes.c_long, (kinds, after, times, error)))


def content(used: Used) -> Content:
    return {
        name: (used.all(name), dict(used.read(0, name, most_bytes=1 << 30).notes), dict(used.partition(name).records))
        for name in ("q", "log")
    }


class Game:
    """One run of the changes, and what must be there behind it."""

    def __init__(self, folder: Path) -> None:
        self.waiting = threading.Event()
        self.store = Store(folder, self.waiting.set)
        self.queue, self.log = self.store.partition("q"), self.store.partition("log")
        self.there: dict[str, dict[int, bytes]] = {"q": {at: b"%d" % at * 50 for at in range(40)}, "log": {}}
        self.refused: list[StoreError] = []
        self.open = 0  # appends whose outcome is not known
        self.unwritten = 0
        self.read: list[object] = []

    def append(self, name: str, messages: list[bytes], sync_s: float = 0.0) -> None:
        partition = self.store.partition(name)
        self.open += 1

        def done(error: StoreError | None) -> None:
            self.open -= 1
            if error is None:
                self.there[name].update(enumerate(messages, first))
            else:
                self.refused.append(error)

        first = partition.append(messages, done, sync_s=sync_s)

    def lasting(self) -> Any:  # noqa: ANN401 - `done`
        self.unwritten += 1

        def done(error: StoreError | None) -> None:
            assert error is None, error
            self.unwritten -= 1

        return done

    def until(self, done: Any) -> bool:  # noqa: ANN401 - a function without arguments
        end = time.monotonic() + 20
        while not done():
            if time.monotonic() > end:
                return False
            self.waiting.wait(0.01)
            self.waiting.clear()
            self.store.finish()
        return True

    def play(self) -> None:
        for turn in range(6):
            self.append("q", [b"new %d" % turn * 300] * 5)
            self.append("log", [bytes(20_000)] * (turn + 1), sync_s=0.001 if turn % 2 else 0.0)
            self.queue.delete([3 * turn, 3 * turn + 1, 20 + turn], self.lasting())
            for gone in (3 * turn, 3 * turn + 1, 20 + turn):
                del self.there["q"][gone]
            self.queue.note(30 + turn, b"note %d" % turn, self.lasting())
            self.log.put("place", b"%d" % turn, self.lasting(), sync_s=1.0)
            self.queue.read(0, self.read.append)
            assert self.until(lambda: not self.open), "a producer does not hear of its messages"

    def expected(self) -> Content:
        notes = {30 + turn: b"note %d" % turn for turn in range(6)}
        return {
            "q": (sorted(self.there["q"].items()), notes, {"begun": b""}),
            "log": (sorted(self.there["log"].items()), {}, {"place": b"5"}),
        }


def play(template: Path, folder: Path, point: tuple[str, int, int, int]) -> str:
    """Play a point; return what is wrong, "" if nothing is."""
    kind, after, times, error = point
    shutil.copytree(template, folder)
    fails(folder, KINDS[kind], after, times, error)
    try:
        game = Game(folder)
    except StoreError:
        fails(folder, 0, 0, 0, 0)
        game = Game(folder)  # nothing is lost by an opening that failed
    game.play()
    fails(folder, 0, 0, 0, 0)
    if not game.until(lambda: not game.unwritten and len(game.read) == 6):
        return f"{game.unwritten} changes are not written, {len(game.read)} of 6 reads answered"
    if not game.until(lambda: game.store.trouble is None):
        return f"the trouble does not end: {game.store.trouble}"
    errors = [each for each in (*game.refused, *game.read) if isinstance(each, StoreError)]
    if any(isinstance(each, StoreDamaged) for each in game.read):
        return "a reader is told that the store is damaged"
    if kind == "write" and error != errno.EIO and not all(isinstance(each, StoreFull) for each in errors):
        return f"not named as full: {errors[0]}"
    shutil.copytree(folder, folder.parent / "killed")
    game.store.close()
    game.store.finish()
    for path in (folder.parent / "killed", folder):
        used = Used(path)
        found, expected = content(used), game.expected()
        used.store.close()
        shutil.rmtree(path)
        if found != expected:
            return f"in {path.name}: {[name for name in found if found[name] != expected[name]]} differ"
    return ""


def main(folder: Path, seed: int, points: int) -> None:
    logging.disable()
    writer.RETRY_S = store.RETRY_S = 0.01  # type: ignore[misc, attr-defined]
    template = folder / "template"
    used = Used(template)
    used.append([b"%d" % at * 50 for at in range(40)])
    used.wait(lambda done: used.partition().put("begun", b"", done))
    used.store.close()
    chance = random.Random(seed)  # noqa: S311 - a choice
    tried: list[tuple[str, int, int, int]] = []
    for kind, bit in KINDS.items():
        fails(folder / "played", bit, 0, 0, 0)
        assert not play(template, folder / "played", (kind, 0, 0, 0))
        shutil.copytree(template, folder / "counted")
        fails(folder / "counted", bit, 0, 0, 0)
        game = Game(folder / "counted")
        game.play()
        game.store.close()
        calls = DISK.disk_calls()
        shutil.rmtree(folder / "counted")
        assert calls, f"no {kind} was seen"
        tried += [(kind, at, times, error) for at in range(calls) for times in (1, UNTIL_MENDED) for error in ERRORS]
    for point in chance.sample(tried, min(points, len(tried))):
        wrong = play(template, folder / "played", point)
        if wrong:
            print(*point, wrong, flush=True)  # noqa: T201 - the test reads it
            shutil.rmtree(folder / "played", ignore_errors=True)
            shutil.rmtree(folder / "killed", ignore_errors=True)
    print("through", len(tried))  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
