"""Copies of a store that is in use: one of a single moment is whole, and one made file by file may not be."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rstreams.errors import StoreError
from rstreams.store import check
from rstreams.store.writer import LOG_BYTES
from tests.store.stores import opened

WRITER = """
import os, sys
from pathlib import Path
from tests.store.stores import opened

with opened(Path(sys.argv[1])) as used:
    for number in range(10**9):
        used.append([b"%d" % number + bytes(4000)], "kept")
        used.append([b"%d" % number], "moving")
        if number > 5:
            used.delete([number - 5], "moving")
        os.write(1, b".")
"""


@contextmanager
def writing(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Have a process write to a store; it writes a point for each two messages that are safe."""
    root = str(Path(__file__).parents[2])
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, cwd=root, env={**os.environ}
    ) as writer:
        try:
            yield writer
        finally:
            writer.kill()


def stop(writer: subprocess.Popen[bytes]) -> None:
    """Stop all threads of a process, wherever they are, and wait until they stand still."""
    writer.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, writer.pid, os.WSTOPPED | os.WNOWAIT)


def is_whole(copy: Path) -> bool:
    try:
        return check(copy) == []
    except StoreError:
        return False


@pytest.mark.slow
def test_a_copy_of_one_moment_is_whole_and_has_all_that_was_accepted(tmp_path: Path) -> None:
    """A stopped process changes no file: a copy made then is what an atomic snapshot of the folder has."""
    safe, copies = 0, []
    with writing(tmp_path / "s") as writer:
        assert writer.stdout is not None
        for at in range(8):
            safe += len(os.read(writer.stdout.fileno(), 1))
            for _ in range(40 * at):  # across the moments at which the log is moved into the tables
                safe += len(os.read(writer.stdout.fileno(), 65536))
            stop(writer)
            os.set_blocking(writer.stdout.fileno(), False)
            while True:
                try:
                    safe += len(os.read(writer.stdout.fileno(), 65536))
                except BlockingIOError:
                    break
            os.set_blocking(writer.stdout.fileno(), True)
            shutil.copytree(tmp_path / "s", tmp_path / f"copy{at}")
            copies.append((tmp_path / f"copy{at}", safe))
            writer.send_signal(signal.SIGCONT)
    for copy, accepted in copies:
        assert check(copy) == []
        with opened(copy) as used:
            assert accepted <= used.partition("kept").count <= accepted + 1
            assert used.partition("moving").next >= accepted
            chunk = used.read(0, "kept", most_bytes=10**9)
            numbers = [int(message[:-4000]) for _, message in chunk]
            assert numbers == list(range(len(numbers)))
            used.append([b"it goes on"], "kept")


@pytest.mark.parametrize("first", ["store.db", "mark"])
def test_a_copy_made_file_by_file_may_mix_two_moments_and_is_not_taken_for_a_store(tmp_path: Path, first: str) -> None:
    """Between two files SQLite moved the log into the tables: what was in the old log is in no file of the copy."""
    copy = tmp_path / "copy"
    copy.mkdir()
    piece = bytes(1024 * 1024)
    with opened(tmp_path / "s") as used:
        used.append([b"accepted before the copy began"])
        shutil.copy(tmp_path / "s" / first, copy)
        for _ in range(5 * LOG_BYTES // len(piece)):  # the log is moved, and begins anew
            used.append([piece])
        for name in ("store.db", "store.db-wal", "mark"):
            if name != first:
                shutil.copy(tmp_path / "s" / name, copy)
    assert is_whole(copy) == (first == "mark"), "the tables may be newer than the mark says, but not older"
