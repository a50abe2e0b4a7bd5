"""One run of `rstreams send`: it sends as fast as the peer grants credit, and counts the outcomes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import aclosing
from functools import partial
from itertools import cycle, islice
from typing import Any, Final

import trio

from rstreams import Receipt, Sender
from rstreams.cli.client import Command
from rstreams.cli.exit_codes import CommandEnded, ExitCode, mistake
from rstreams.cli.input import STDIN, InputFiles, Rows, is_typed
from rstreams.cli.parts import Parts
from rstreams.errors import ConfigError, DeliveryFailed

_MOST_TOLD: Final = 10
"""How many messages that were not accepted are told one by one; --json tells them all."""

_LAST_OUTCOMES_S: Final = 0.4
"""How long outcomes are waited for when a signal has ended the command."""

_MANY: Final = 256


class SendRun:
    """Sends what the arguments say.

    Attributes:
        sent: How many messages have been sent.
        outcomes: How many have each outcome.
    """

    def __init__(self, client: Command, parts: Parts) -> None:
        """Send to the peer of the client."""
        self.sent = 0
        self.outcomes: Counter[str] = Counter()
        self._client = client
        self._arguments = client.arguments
        self._parts = parts
        self._settled = 0
        self._changed = trio.Event()
        self._began = time.monotonic()

    async def work(self) -> int:
        """Send everything; return the exit code."""
        async with aclosing(self._batches()) as batches, self._client.connect() as connection:
            self._parts.add_delay(connection)
            self._began = time.monotonic()
            self._client.summary = self._tell
            settlement: Any = "at_most_once" if self._arguments.at_most_once else "at_least_once"
            options = {"durable": self._arguments.durable, "settlement": settlement}
            async with connection.sender(self._arguments.address, **options) as sender:
                try:
                    await self._send(sender, batches)
                except (trio.Cancelled, CommandEnded):
                    with trio.move_on_after(_LAST_OUTCOMES_S, shield=True):
                        await self._all_settled()
                    raise
                await self._all_settled()
        return ExitCode.DONE if self.outcomes["accepted"] == self.sent else ExitCode.NOT_ALL

    # ------------------------------------------------------------------------------------------------ what to send

    def _batches(self) -> AsyncGenerator[Iterable[Any], None]:
        """Return the bodies, or the messages of envelopes, as many at a time as are there."""
        arguments = self._arguments
        if arguments.body:
            return self._given()
        source = InputFiles(arguments.file or [STDIN])
        files = source.open_all()
        if arguments.whole or (arguments.file and not (arguments.lines or arguments.jsonl or arguments.csv)):
            return source.whole(files)
        if not arguments.file and is_typed():
            self._client.console.note("a line is a message; Ctrl-D ends")
        lines = source.lines(files)
        if arguments.jsonl:
            return _each(source.envelopes, lines)
        if arguments.csv:
            rows = Rows(source)
            return _each(rows.bodies, lines, rows.check_end)
        return lines

    async def _given(self) -> AsyncGenerator[Iterable[Any], None]:
        """Return the arguments, repeated as -n says."""
        makers = self._parts.bodies
        count = self._arguments.count or len(makers)
        numbered = enumerate(islice(cycle(makers), count), 1)
        while batch := [make(number) for number, make in islice(numbered, _MANY)]:
            await trio.lowlevel.checkpoint()
            yield batch

    # ------------------------------------------------------------------------------------------------ sending

    async def _send(self, sender: Sender, batches: AsyncIterator[Iterable[Any]]) -> None:
        most, rate = self._arguments.count, self._arguments.rate
        plain = self._parts.are_none
        console = self._client.console
        async for batch in batches:
            left = batch if most is None else islice(batch, most - self.sent)
            for body in left:
                if rate is not None:
                    await self._pace(rate)
                number = self.sent + 1
                try:
                    message = body if plain else self._parts.message(body, number)
                    receipt = await sender.submit(message)
                except ConfigError as error:
                    msg = f"message {number}: {error}"
                    raise mistake(msg) from None
                self.sent = number
                receipt.when_settled(partial(self._on_settled, number))
            if console.has_progress:
                console.progress(f"{self.sent:,} sent, {self._settled:,} settled")
            if most is not None and self.sent >= most:
                return

    async def _pace(self, rate: float) -> None:
        """Wait until the next message is due; a late one is not caught up with more than a tenth of a second."""
        due = self._began + self.sent / rate
        now = time.monotonic()
        if due > now:
            await trio.sleep(due - now)
        elif now - due > 0.1:  # the peer was slower: go on from here, without a burst
            self._began += now - due

    def _on_settled(self, number: int, receipt: Receipt) -> None:
        """Count an outcome; tell one that is not accepted."""
        self._settled += 1
        error = receipt.error
        if error is None:
            self.outcomes["accepted"] += 1
        else:
            self._tell_failure(number, error)
        if self._settled == self.sent:
            self._changed.set()

    async def _all_settled(self) -> None:
        while self._settled < self.sent:
            self._changed = trio.Event()
            await self._changed.wait()

    # ------------------------------------------------------------------------------------------------ telling

    def _tell_failure(self, number: int, error: BaseException) -> None:
        outcome = error.outcome if isinstance(error, DeliveryFailed) else "unknown"
        self.outcomes[outcome] += 1
        console = self._client.console
        if console.json:
            condition = getattr(error, "condition", None)
            description = getattr(error, "description", "") or str(error)
            console.print_object({"n": number, "outcome": outcome, "condition": condition, "description": description})
        elif sum(self.outcomes.values()) - self.outcomes["accepted"] <= _MOST_TOLD:
            console.warn(f"message {number} is not accepted: {error}")

    def _tell(self) -> None:
        """Say how many were sent, and what became of them."""
        span_s = time.monotonic() - self._began
        unknown = self.sent - self._settled + self.outcomes["unknown"]
        counts = {name: self.outcomes[name] for name in ("accepted", "rejected", "released", "modified")}
        console = self._client.console
        if console.json:
            console.print_object({"sent": self.sent, **counts, "unknown": unknown, "seconds": round(span_s, 3)})
            return
        others = [
            f"{count:,} {name}" for name, count in (*counts.items(), ("with an unknown outcome", unknown)) if count
        ]
        rate = f" in {span_s:.2f} s, {self.sent / span_s:,.0f}/s" if self.sent > 1 else ""
        told = f"{self.sent:,} sent: {', '.join(others) or 'none accepted'}{rate}"
        if self.outcomes["accepted"] == self.sent:
            console.note(told if self.sent else "nothing was sent")
        else:
            console.warn(told)


async def _each(
    made: Callable[[Iterable[bytes]], Iterable[Any]],
    lines: AsyncGenerator[list[bytes], None],
    at_end: Callable[[], None] = lambda: None,
) -> AsyncGenerator[Iterable[Any], None]:
    """Return what is made of lines, as many at a time as are there."""
    async with aclosing(lines):
        async for some in lines:
            yield made(some)
    at_end()
