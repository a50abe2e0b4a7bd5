"""What a case gets: a client of one version and a node of the other, and a place for what was wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import trio

from rstreams.simulation.checker import Finding, check
from tests.compat.processes import ANSWER_S, CallFailed, Process

EVERY_S = 0.01
"""How often a condition is looked at that gives no event."""


class Pair:
    """The two processes of a case.

    Attributes:
        client: The worker that is the client.
        node: The worker that is the node, "n".
        folder: An empty folder of the case.
        problems: What was wrong.
        counted: How many messages were judged.
    """

    def __init__(self, client: Process, node: Process, folder: Path) -> None:
        self.client = client
        self.node = node
        self.folder = folder
        self.problems: list[str] = []
        self.counted = 0

    async def listening(self, **options: Any) -> str:
        """Open the node and have it listen; return the url."""
        await self.node("node", "n", **options)
        url: str = await self.node("listen", "n")
        return url

    def expect(self, what: str, found: object, wanted: object) -> None:
        """Note a problem unless two values are equal."""
        if found != wanted:
            self.problems.append(f"{what}: {found!r} instead of {wanted!r}")

    def require(self, what: str, holds: object) -> None:
        """Note a problem unless something holds."""
        if not holds:
            self.problems.append(f"not so: {what}")

    def judge(
        self, what: str, came: Sequence[dict[str, Any]], wanted: Iterable[int], *, once: bool = True, order: bool = True
    ) -> None:
        """Count messages that came: each wanted one must be there, unchanged, and no other.

        Args:
            what: Where they came from.
            came: What the worker told of each.
            wanted: The numbers, in their order.
            once: Whether none may come twice.
            order: Whether those that come for the first time must be in the order of `wanted`.
        """
        self.counted += len(came)
        events = _history([each["number"] for each in came], wanted, once=once, order=order)
        found = [*check(events), *(Finding("changed", each["wrong"]) for each in came if each["wrong"])]
        firsts = {finding.kind: finding.text for finding in reversed(found)}
        many = Counter(finding.kind for finding in found)
        self.problems += [f"{what}: {many[kind]} {kind}: {text}" for kind, text in firsts.items()]

    async def fails(self, what: str, call: Awaitable[object], **told: object) -> dict[str, Any]:
        """Make a call that must fail, with these parts of its error."""
        try:
            result = await call
        except CallFailed as error:
            for name, wanted in told.items():
                self.expect(f"{what}, {name} of the error", error.told[name], wanted)
            return error.told
        self.problems.append(f"{what}: no error but {result!r:.200}")
        return {}

    async def until(self, what: str, look: Callable[[], Awaitable[bool]]) -> None:
        """Wait for something that another process does, which gives no event to wait for."""
        with trio.move_on_after(ANSWER_S):
            while not await look():  # noqa: ASYNC110 - of another process
                await trio.sleep(EVERY_S)
            return
        self.problems.append(f"{what}: not within {ANSWER_S:.0f} s")

    async def queue_has(self, queue: str, **numbers: int) -> None:
        """Wait until a queue of the node has these counters; they follow what the client does."""
        found: dict[str, int] = {}

        async def look() -> bool:
            counters = (await self.node("counters", "n"))["queues"][queue]
            found.update({name: counters[name] for name in numbers})
            return found == numbers

        with trio.move_on_after(ANSWER_S / 6):
            while not await look():  # noqa: ASYNC110 - of another process
                await trio.sleep(EVERY_S)
        self.expect(f"counters of {queue}", found, numbers)


def _history(came: Iterable[int], wanted: Iterable[int], *, once: bool, order: bool) -> Iterator[dict[str, Any]]:
    """Return the history of one address: what was accepted, then what came."""
    promises = {"promise": "effectively_once" if once else "at_least_once", "order": "producer" if order else "none"}
    events: list[dict[str, Any]] = [{"event": "address", **promises}]
    events += [{"event": event, "by": "producer", "item": item} for item in wanted for event in ("sent", "accepted")]
    events += [] if once else [{"event": "fault"}]
    events += [{"event": event, "by": "consumer", "item": item} for item in came for event in ("got", "done")]
    events += [] if once else [{"event": "healed"}]
    for at, event in enumerate([*events, {"event": "end"}]):
        yield {"at": at, "address": "here", **event}
