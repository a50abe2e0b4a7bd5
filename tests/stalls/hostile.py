"""Peers that were not made for good: they take messages, and answer at `$explain` with whatever hurts most.

Each grants no credit for the queue, so that the question of a node goes on to it. They use python-qpid-proton.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import trio
from proton import Message, symbol
from proton.handlers import MessagingHandler
from proton.reactor import Container

from rstreams.protocol.frames import EXPLAINS
from tests.stalls.part import Cue

CONTROL: Final = "\x1b[2J\x1b[31m"
"""What clears a terminal, and makes it red."""

LIE: Final[dict[str, str]] = {
    "kind": "slow_handler",
    "sentence": f"innocent {CONTROL * 1000}",
    "name": "innocent",
    "where": "node",
}

ANSWERS: Final[dict[str, Callable[[], Any]]] = {
    "mute": lambda: None,
    "nonsense": lambda: ["not", 1, "tree"],
    "deep": lambda: _tree(*({"depth": depth} for depth in range(200))),
    "nested": lambda: _nested(300),
    "wide": lambda: _tree({}, *({"depth": 1} for _ in range(2_000))),
    "huge": lambda: _tree({"state": "x" * 20_000_000}),
    "lying": lambda: _tree({"blame": LIE}),
}


def _tree(*parts: Mapping[str, object]) -> dict[str, Any]:
    plain = {"depth": 0, "kind": "peer", "name": "hostile", "state": "", "blame": None}
    return {"culprit": None, "parts": [{**plain, **part} for part in parts]}


def _nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


class Hostile(MessagingHandler):
    """Attaches to the queue without credit, and answers as one of `ANSWERS`."""

    def __init__(self, url: str, answer: str, on_attached: Callable[[], None]) -> None:
        super().__init__(prefetch=0, auto_settle=False)
        self._url = url
        self._answer = answer
        self._on_attached = on_attached

    def on_start(self, event: Any) -> None:  # noqa: ANN401 - proton has no types
        connection = event.container.connect(self._url, offered_capabilities=[symbol(EXPLAINS)], reconnect=False)
        event.container.create_receiver(connection, "orders")

    def on_link_opened(self, event: Any) -> None:  # noqa: ANN401
        if event.link.is_receiver:
            self._on_attached()

    def on_link_opening(self, event: Any) -> None:  # noqa: ANN401
        if event.link.is_sender and self._answer != "mute":
            event.link.source.address = event.link.remote_source.address

    def on_sendable(self, event: Any) -> None:  # noqa: ANN401
        if self._answer != "mute":
            event.sender.send(Message(ANSWERS[self._answer]()))


async def play(cue: Cue, answer: str) -> None:
    """Be a hostile consumer."""
    token = trio.lowlevel.current_trio_token()
    container = Container(Hostile(cue.url, answer, lambda: token.run_sync_soon(cue.ready, None)))
    container.container_id = f"hostile-{answer}"
    await trio.to_thread.run_sync(container.run, abandon_on_cancel=True)
