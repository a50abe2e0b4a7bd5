"""The trio run of a connection or a node: calls from another one are refused before they do harm."""

from __future__ import annotations

import trio

from rstreams.errors import ConfigError


class OwnRun:
    """The trio run, and with it the thread, in which an object was made."""

    def __init__(self) -> None:
        """Live in this run."""
        self._run = trio.lowlevel.current_trio_token()

    def elsewhere(self, call: str, owner: str) -> ConfigError | None:
        """Return the error for a `call` of `owner` from another thread or trio run, if this is one."""
        if trio.lowlevel.in_trio_run() and trio.lowlevel.current_trio_token() is self._run:
            return None
        text = "it was called in another thread or trio run than its own, and signals cannot cross from one to another"
        asyncio = "under asyncio by asyncio.run_coroutine_threadsafe"
        ways = f"call it there by trio.from_thread.run or run_sync, {asyncio}, or use rstreams.blocking"
        return ConfigError(f"{call} of {owner}: {text}: {ways}")
