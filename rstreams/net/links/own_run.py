"""The trio run of a connection or a node: calls from another one are refused before they do harm."""

from __future__ import annotations

import trio
from trio.lowlevel import TrioToken

from rstreams.errors import ConfigError


def called_elsewhere(run: TrioToken, call: str, owner: str) -> ConfigError | None:
    """Return the error for a `call` of `owner`, which lives in `run`, from another thread or trio run, if it is one."""
    if trio.lowlevel.in_trio_run() and trio.lowlevel.current_trio_token() is run:
        return None
    text = "it was called in another thread or trio run than its own, and signals cannot cross from one to another"
    asyncio = "under asyncio by asyncio.run_coroutine_threadsafe"
    ways = f"call it there by trio.from_thread.run or run_sync, {asyncio}, or use rstreams.blocking"
    return ConfigError(f"{call} of {owner}: {text}: {ways}")
