"""The guide to groups: its table of what comes twice is of runs like these, in which a member or the node is killed."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import Empty, Queue
from threading import Thread

import pytest

import rstreams.blocking
from rstreams import Message, Stream
from tests.docs.examples import ROOT
from tests.docs.test_first_service import free_port

PAGE = (ROOT / "docs" / "guides" / "groups.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (one member|the node)[^|]* \| `(\w+).*?` \| (\d+) \|", PAGE, re.MULTILINE)
MESSAGES = 200

MEMBER = """
import asyncio, sys
import rstreams.aio as rstreams

async def handle(number):
    await asyncio.sleep(0.01)
    print(sys.argv[1], number, flush=True)

async def main():
    async with rstreams.connect(sys.argv[2], reconnect=rstreams.Reconnect(first_delay_s=0.1)) as connection:
        if sys.argv[3] == "consume":
            await connection.consume("orders", handle, group="billing")
        async with connection.stream("orders", group="billing").open() as orders:
            async for number in orders:
                await handle(number)

asyncio.run(main())
"""


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True) as program:
        try:
            yield program
        finally:
            program.kill()


def read(program: subprocess.Popen[str], lines: Queue[tuple[str, int]]) -> None:
    assert program.stdout is not None
    for line in program.stdout:
        who, number = line.split()
        lines.put((who, int(number)))


def node_of(folder: Path) -> tuple[str, ...]:
    return ("-m", "rstreams.cli", "node", "--config", str(folder / "node.toml"))


def test_the_table_has_each_death_with_both_ways_to_read() -> None:
    assert Counter(each[:2] for each in ROWS) == {
        (killed, way): 1 for killed in ("one member", "the node") for way in ("consume", "stream")
    }


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize(("killed", "way", "told"), ROWS, ids=str)
def test_nothing_is_missing_and_the_window_bounds_what_comes_twice(
    killed: str, way: str, told: str, tmp_path: Path
) -> None:
    port = free_port()
    (tmp_path / "node.toml").write_text(
        f'[node]\nstore = "store"\n[[listen]]\nplace = "127.0.0.1:{port}"\n[logs.orders]\npartitions = 4\n',
        encoding="utf-8",
    )
    url, lines, handled = f"amqp://127.0.0.1:{port}", Queue[tuple[str, int]](), list[tuple[str, int]]()
    with ExitStack() as stack:
        node = stack.enter_context(started(*node_of(tmp_path)))
        assert node.stdout is not None
        node.stdout.readline()
        keyed = Stream.range(MESSAGES).map(lambda n: Message(n, annotations={"x-opt-partition-key": n % 20}))
        with rstreams.blocking.connect(url) as connection:
            connection.publish("orders", keyed)
        members = [stack.enter_context(started("-c", MEMBER, name, url, way)) for name in "ab"]
        for member in members:
            Thread(target=read, args=(member, lines), daemon=True).start()
        while len(handled) < MESSAGES * 0.3:
            handled.append(lines.get(timeout=30))
        if killed == "the node":
            node.kill()
            node.wait()
            stack.enter_context(started(*node_of(tmp_path)))
        else:
            members[0].kill()
        begun = time.monotonic()
        while len({number for _, number in handled}) < MESSAGES:
            assert time.monotonic() < begun + 60
            handled.append(lines.get(timeout=60))
        try:
            while True:
                handled.append(lines.get(timeout=0.5))
        except Empty:
            pass
    by_node = 2 * 2 if way == "consume" else MESSAGES  # in hand and just handled; or what was asked ahead
    most = MESSAGES + (2 if killed == "one member" else by_node)
    assert MESSAGES <= len(handled) <= most
    assert MESSAGES <= int(told) <= most
