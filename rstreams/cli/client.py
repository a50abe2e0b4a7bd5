"""A command that talks to a peer: it connects, works until it is done or a signal ends it, and leaves in order.

SIGINT, SIGTERM and SIGHUP (a closed terminal) end the work: what is in hand goes back to the peer, and the summary is
printed. A second signal, or a peer that does not answer within `PATIENCE_S`, ends the process at once.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from rstreams.cli.console import Console
from rstreams.cli.exit_codes import ExitCode
from rstreams.cli.peer import ChosenPeer, chosen_peer

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    import trio

    from rstreams import Connection

PATIENCE_S: Final = 0.8
"""How long a command waits for its peer when a signal has ended it."""

_SIGNALS: Final = tuple(
    number for name in ("SIGINT", "SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None
)


class Command:
    """A command at work.

    Attributes:
        arguments: Its arguments.
        console: Where it prints.
        peer: The peer.
        summary: Called once when the work ends, however it ends; None: there is nothing to tell.
    """

    def __init__(self, arguments: argparse.Namespace, console: Console, peer: ChosenPeer) -> None:
        """Work with the peer."""
        self.arguments = arguments
        self.console = console
        self.peer = peer
        self.summary: Callable[[], None] | None = None
        self._lock = threading.Lock()

    def connect(self) -> AbstractAsyncContextManager[Connection]:
        """Connect to the peer, for the length of an `async with` block."""
        import rstreams

        return rstreams.connect(**self.peer.connect_options())

    def tell(self) -> None:
        """Print the summary, if it has not been printed."""
        with self._lock:
            summary, self.summary = self.summary, None
        self.console.clear_progress()
        if summary is not None:
            summary()


def run_client(arguments: argparse.Namespace, work: Callable[[Command], Awaitable[int]]) -> int:
    """Run a command that talks to a peer.

    Args:
        arguments: Its arguments.
        work: What it does; returns the exit code.

    Errors: `CommandEnded` for whatever goes wrong, with the exit code.
    Context: Blocks until the work is done, or a signal has ended it.
    """
    console = Console(arguments)
    peer = chosen_peer(arguments)
    import trio

    from rstreams.cli.failures import ending_of

    client = Command(arguments, console, peer)
    log, notes = logging.getLogger("rstreams"), _Notes(console)
    log.addHandler(notes)
    log.propagate = False
    try:
        return trio.run(partial(_until_told, client, work), restrict_keyboard_interrupt_to_checkpoints=True)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise ending_of(error, peer.place) from error
    finally:
        client.tell()
        log.propagate = True
        log.removeHandler(notes)


class _Notes(logging.Handler):
    """The log of the library as notes of the command: it tells for example that there has been no credit for 10 s."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.WARNING)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        """Say one line, without a traceback."""
        self._console.note(" ".join(record.getMessage().split()))


async def _until_told(client: Command, work: Callable[[Command], Awaitable[int]]) -> int:
    import trio

    from rstreams import Scope

    told: list[int] = []
    code: int = ExitCode.DONE
    with trio.open_signal_receiver(*_SIGNALS) as signals:
        async with Scope() as scope:
            working = trio.CancelScope()
            scope.nursery.start_soon(_watch, client, signals, working, told)
            with working:
                code = await work(client)
            scope.nursery.cancel_scope.cancel()
    return 128 + told[0] if told else code


async def _watch(client: Command, signals: AsyncIterator[int], working: trio.CancelScope, told: list[int]) -> None:
    """End the work at the first signal, and the process at the second, or when the peer lets it wait."""
    async for number in signals:
        if told:
            _leave(client, told[0])
        told.append(number)
        timer = threading.Timer(PATIENCE_S, _leave, (client, number))
        timer.daemon = True
        timer.start()
        working.cancel()


def _leave(client: Command, number: int) -> None:
    """End the process now; the peer gives what was in hand to others when the connection is gone."""
    try:
        client.tell()
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError):  # a closed terminal, or no standard output at all
        pass
    os._exit(128 + number)
