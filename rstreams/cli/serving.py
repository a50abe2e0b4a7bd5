"""A node as a process: it runs until a signal ends it.

SIGTERM, SIGINT    the node finishes the work under way and ends; a second one ends it at once
SIGHUP             the config file is read again: users, permissions, limits and certificates
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import trio

from rstreams._events.table import CONFIG_NEEDS_RESTART, CONFIG_NOT_USED, CONFIG_READ_AGAIN, CONFIG_WRONG, NODE_DRAINS
from rstreams.errors import ConfigError
from rstreams.net.options.limits import DEFAULT_DRAIN_S
from rstreams.net.transport.listening_place import ListeningPlace
from rstreams.node import Node
from rstreams.node.config import BrokenConfig, NodeConfig, read_config
from rstreams.runtime.scope import Scope

HANG_UP: Final = getattr(signal, "SIGHUP", None)
"""The signal for reading the file again; None on systems without it."""


async def serve(config: NodeConfig, *, file: Path | None = None, url_file: Path | None = None) -> None:
    """Run a node until a signal ends it.

    Args:
        config: The node.
        file: The file that it was read from, to be read again; None: SIGHUP has its usual effect.
        url_file: A file for the url of the first listener, while the node listens.

    Errors: `ConfigError` for an option that is not allowed; `TransportError` if it cannot listen; `OSError` for a file
        that cannot be read or written.
    """
    heard = [signal.SIGINT, signal.SIGTERM]
    if file is not None and HANG_UP is not None:
        heard.append(HANG_UP)
    with trio.open_signal_receiver(*heard) as signals:
        node = config.make()
        async with Scope() as scope, node:
            listeners = await config.listen(node)
            process = _Process(node, config, file, listeners)  # signals that came before wait for it
            scope.nursery.start_soon(process.watch, signals)
            with _written(url_file, listeners[0].url):
                for listener in listeners:
                    print(f"listening on {listener.url}", flush=True)
                await process.told.wait()
            await process.drain(config.drain_s)


class _Process:
    """A node that runs, and what signals do to it.

    Attributes:
        told: Set when a signal has told the node to end.
    """

    def __init__(self, node: Node, config: NodeConfig, file: Path | None, listeners: Sequence[ListeningPlace]) -> None:
        self.told = trio.Event()
        self._listeners = listeners
        self._node = node
        self._config = config
        self._file = file
        self._draining = trio.CancelScope()

    async def watch(self, signals: AsyncIterator[int]) -> None:
        """Act on signals until cancelled."""
        async for number in signals:
            if number == HANG_UP:
                await self._read_again()
            elif self.told.is_set():
                self._draining.cancel()
            else:
                self.told.set()

    async def drain(self, drain_s: float) -> None:
        """Finish the work under way, for at most `drain_s` seconds, or until the second signal."""
        if drain_s:
            NODE_DRAINS.tell(seconds=drain_s)
        else:
            self._draining.cancel()  # the log still tells what is left
        with self._draining:
            await self._node.drain_and_close(timeout_s=drain_s or DEFAULT_DRAIN_S)

    async def _read_again(self) -> None:
        """Take users, permissions, limits and certificates from the file; if it is broken, keep the old ones."""
        assert self._file is not None, "the signal is not received without a file"
        config = self._config
        try:
            config = await trio.to_thread.run_sync(read_config, self._file)
            await config.renew(self._node, self._config, self._listeners)
        except ConfigError as error:
            for problem in error.problems if isinstance(error, BrokenConfig) else (error,):
                CONFIG_WRONG.tell(str(problem), why=problem, file=self._file)
            CONFIG_NOT_USED.tell(file=self._file)
        else:
            CONFIG_READ_AGAIN.tell(file=self._file)
        if changes := config.fixed_changes(self._config):
            CONFIG_NEEDS_RESTART.tell(file=self._file, what="; ".join(changes))


@contextmanager
def _written(path: Path | None, url: str) -> Iterator[None]:
    """Have `url` in a file for the length of a block; the file never holds only a part of it."""
    if path is None:
        yield
        return
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_text(f"{url}\n", encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        msg = f"--url-file {str(path)!r} cannot be written: {error.strerror}"
        raise OSError(msg) from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
