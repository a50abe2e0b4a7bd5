"""The soak: publishers and consumers in processes of their own, a node in another, and a network that fails at random.

    python -m tests.soak.run --seconds 60 --seed 1 --loop asyncio

Some publishers share one queue and its competing consumers, at least once; one sends to a named subscription of a
multicast; the others have a queue and a consumer each, effectively once. Every process writes a history, beside the
JSON if there is to be some. They are judged together: it ends with one line, and with exit code 1 if something was
wrong, or if a process has grown. Bytes are not
corrupted: nothing but TLS would notice all of that. Nor are some left out and the next ones passed on, which no TCP
does: a connection that has swallowed bytes never comes to life again. Its ends would agree on all later frames, and
never settle what the missing ones were about.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import trio

from rstreams.net._proton import BUFFER_BYTES
from rstreams.net.transport.run_share import ROOM_BYTES
from rstreams.simulation.checker import Checker, Finding, read
from rstreams.simulation.history import History
from rstreams.testing import FaultyConnection, FaultyNetwork
from tests.loops import KINDS
from tests.processor import processor_s
from tests.soak.parts import NAMED, PARTS, REMEMBERED

PUBLISHERS: Final = 2
CONSUMERS: Final = 2
LOOKS: Final = 20
"""How often each process is asked for its memory; the median of the second half is held against that of the first."""

CONNECTION_BYTES: Final = BUFFER_BYTES
"""What one connection has for what goes out; for what comes in all of a process have the same room."""

KNOWN_BYTES: Final = 256
"""What a consumer needs to know a message again: a tuple, two texts, a number, and a place in a dict."""

FLAT_BYTES: Final = 2**20 + ROOM_BYTES + KNOWN_BYTES * REMEMBERED + 2 * (PUBLISHERS + CONSUMERS + 1) * CONNECTION_BYTES
"""How much more memory may be: an arena of Python's, all that is known being known, and each connection there twice,
since those that died wait for their time-out. It does not depend on the length of the run: time shows any leak."""

LEAST_S: Final = 5.0

ANSWER_S: Final = 60.0
"""How long anything may take that must end: an answer, or what is on its way when nothing fails any more."""

FRAMES: Final[list[Any]] = ["transfer", "disposition", "flow", "attach", "begin", "open", "sasl_outcome", "detach"]


class Part:
    """A process of the soak, which is told and tells one line at a time."""

    def __init__(self, *words: str) -> None:
        command = [sys.executable, "-m", "tests.soak.run", *words]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.name = " ".join(word for word in words if not word.startswith("amqp"))

    async def ask(self, word: str) -> dict[str, Any]:
        """Say a word, and return the answer; a cancellation waits for it, as the next one would be another's."""
        with trio.move_on_after(ANSWER_S, shield=True):
            return await trio.to_thread.run_sync(self._ask, word, abandon_on_cancel=True)
        msg = f"the process {self.name!r} has not answered {word!r} in {ANSWER_S:g} s"
        raise RuntimeError(msg)

    def _ask(self, word: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            msg = f"the process {self.name!r} has ended with exit code {self._process.wait()}"
            raise RuntimeError(msg)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


class Weather:
    """What happens to a network, chosen at random.

    Args:
        network: Where it happens.
        choose: Chooses.
    """

    def __init__(self, network: FaultyNetwork, choose: random.Random) -> None:
        self._network = network
        self._choose = choose
        self._swallowing: set[FaultyConnection] = set()

    async def rage(self) -> None:
        """Let something fail every now and then, until cancelled."""
        network, choose = self._network, self._choose
        while True:
            await trio.sleep(choose.uniform(0.01, 0.2))
            for trigger in network.triggers[:-8]:
                trigger.cancel()
            self._swallowing.intersection_update(network.live)
            self._fail_once()

    def clear_up(self) -> None:
        """Let nothing more fail."""
        for connection in self._swallowing.intersection(self._network.live):
            connection.reset()
        self._network.heal()

    def _fail_once(self) -> None:
        """Do something to a connection, or to all."""
        network, choose = self._network, self._choose
        if choose.random() < 0.3:
            trigger = network.when(choose.choice(FRAMES), at=choose.choice(["before", "inside", "after"]))
            faults: list[Callable[[], object]] = [
                trigger.reset,
                trigger.hang_up,
                partial(trigger.half_open, closed="client"),
            ]
            choose.choice(faults)()
        elif choose.random() < 0.05:
            network.close(for_s=choose.uniform(0.05, 0.5)).reset()
        elif network.live:
            self._fail(choose.choice(network.live))

    def _fail(self, connection: FaultyConnection) -> None:
        choose = self._choose
        way: Any = choose.choice(["to_peer", "to_client", "both"])
        faults: list[Callable[[], object]] = [
            connection.reset,
            connection.hang_up,
            partial(connection.half_open, closed="client", reset=choose.random() < 0.5),
            partial(connection.half_open, closed="peer", reset=choose.random() < 0.5),
            partial(self._swallow, connection, way),
            partial(connection.stall, direction=way),
            partial(connection.delay, 0.01, jitter_s=0.01, direction=way),
            partial(connection.bandwidth, 50_000, direction=way),
            partial(connection.slicing, choose.choice([1, 7, 100]), direction=way),
            partial(self._heal, connection),
        ]
        choose.choice(faults)()

    def _swallow(self, connection: FaultyConnection, way: Any) -> None:  # noqa: ANN401 - a direction
        self._swallowing.add(connection)
        connection.blackhole(direction=way)

    def _heal(self, connection: FaultyConnection) -> None:
        if connection in self._swallowing:
            connection.reset()
        else:
            connection.heal()


async def _drained(node: Part) -> dict[str, dict[str, int]]:
    """Wait until nothing is left, for so long as it may take; return what is left at each address."""
    told: dict[str, Any] = {}
    with trio.move_on_after(ANSWER_S):
        while True:
            told = await node.ask("left")
            if not any(any(left.values()) for left in told.values()):
                break
            await trio.sleep(0.1)
    return told


async def _look(parts: list[Part], every_s: float, memory: list[list[int]]) -> None:
    """Note the memory of every process, again and again, until cancelled."""
    while True:
        await trio.sleep(every_s)
        memory.append([(await part.ask("memory"))["memory"] for part in parts])


def _growth(memory: list[list[int]]) -> int:
    """Return by how much the process grew that grew most, from one half of the run to the other.

    A run in which the memory was noted less than twice has no halves: 0.
    """
    if len(memory) < 2:
        return 0
    half = len(memory) // 2
    halves = zip(zip(*memory[:half], strict=True), zip(*memory[half:], strict=True), strict=True)
    return max(int(median(late) - median(early)) for early, late in halves)


async def soak(seconds: float, seed: int, loop: str, place: Path) -> dict[str, Any]:
    """Run it all, and return what it came to."""
    parts: list[Part] = []
    histories = [place / "run.jsonl"]

    def start(*words: str, history: bool = True) -> Part:
        if history:
            histories.append(place / f"{len(histories)}.jsonl")
            words = (*words, str(histories[-1]))
        part = Part(loop, *words)
        parts.append(part)
        return part

    try:
        with History(time.monotonic, to=histories[0]) as history:
            told = await _soak(seconds, seed, start, parts, history)
    finally:
        for part in parts:
            part.end()
    processor = processor_s()
    problems = [f"{finding.kind}: {finding.text}" for finding in _judge(histories)]
    if not told["sent"] == told["accepted"] > 0:
        problems.append(f"of {told['sent']} messages {told['accepted']} were told to be accepted")
    if told["growth"] > FLAT_BYTES:
        problems.append(f"memory has grown by {told['growth']} bytes, and {FLAT_BYTES} are allowed")
    per_s = round(told["faults"] / processor, 2)
    more = {"seconds of processor": round(processor, 1), "faults a second of processor": per_s, "problems": problems}
    return {"seconds": seconds, "seed": seed, "loop": loop, **told, **more}


def _judge(histories: list[Path]) -> list[Finding]:
    checker = Checker()
    for event in read(*histories):
        checker.take(event)
    return checker.end()


async def _soak(
    seconds: float, seed: int, start: Callable[..., Part], parts: list[Part], history: History
) -> dict[str, Any]:
    choose = random.Random(seed)  # noqa: S311 - which faults, not a secret

    for address in ("least", NAMED):
        history.note("address", address=address, copies=address == NAMED)
    for number in range(CONSUMERS):
        history.note("address", address=f"once-{number}", promise="effectively_once")
    history.note("fault", name="weather")
    node = start("node", str(CONSUMERS), history=False)
    port = (await node.ask("port"))["port"]
    async with FaultyNetwork(port, seed=seed) as network:
        weather = Weather(network, choose)
        consumers = [start("consume", network.url, "least", str(number)) for number in range(CONSUMERS)]
        consumers += [start("consume", network.url, f"once-{number}", "0") for number in range(CONSUMERS)]
        consumers.append(start("consume", network.url, NAMED, "0"))
        publishers = [start("publish", network.url, "least", str(number)) for number in range(PUBLISHERS)]
        publishers.append(start("publish", network.url, NAMED, "0"))
        publishers += [start("publish", network.url, f"once-{number}", str(number)) for number in range(CONSUMERS)]
        memory: list[list[int]] = []
        with trio.move_on_after(seconds):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(weather.rage)
                nursery.start_soon(_look, list(parts), seconds / (LOOKS + 1), memory)
        weather.clear_up()
        sent = [await part.ask("stop") for part in publishers]
        left = await _drained(node)
        for part in consumers:
            await part.ask("stop")
        history.note("healed", name="weather")
        for address, numbers in left.items():
            history.note("left", address=address, **numbers)
        history.note("end")
        faults = sum(network.faults.values())
    told = {word: sum(each[word] for each in sent) for word in ("sent", "accepted")}
    return {"faults": faults, **told, "growth": _growth(memory)}


def main() -> None:
    """Run the soak, or be one of its processes."""
    logging.getLogger("rstreams").setLevel(logging.ERROR)  # of losses there are hundreds
    match sys.argv[1:]:
        case ["trio" | "asyncio" as loop, part, *words]:
            on = KINDS[loop](virtual=False)
            on.run(lambda: PARTS[part](on, *words))
            return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="which faults; printed at the start")
    parser.add_argument("--loop", choices=["trio", "asyncio"], default="trio", help="where the processes run")
    parser.add_argument("--json", type=Path, help="where to write what it came to; the histories stand beside it")
    options = parser.parse_args()
    if options.seconds < LEAST_S:
        parser.error(f"--seconds {options.seconds:g}: it must be {LEAST_S:g} or more, for the parts to begin")
    sys.stdout.write(f"soak: seed {options.seed}\n")
    sys.stdout.flush()
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary) if options.json is None else options.json.parent
        told = trio.run(soak, options.seconds, options.seed, options.loop, place)
        if options.json is not None:
            options.json.write_text(json.dumps(told, indent=2) + "\n")
    sys.stdout.writelines(f"{problem}\n" for problem in told["problems"])
    memory = f"{told['growth'] / 2**20:+.1f} MiB of {FLAT_BYTES / 2**20:.1f}"
    per_s = f"{told['faults a second of processor']:g} faults a second of processor"
    sys.stdout.write(
        f"soak: {told['seconds']:g} s, {told['faults']:,} faults, {told['sent']:,} sent, memory {memory}, "
        f"{per_s}, {len(told['problems'])} failed\n"
    )
    if told["problems"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
