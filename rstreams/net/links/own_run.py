"""The trio run of a connection or a node: calls from another one are refused before they do harm."""

from __future__ import annotations

import trio
from trio.lowlevel import TrioToken

from rstreams.errors import ConfigError, ConnectionLost, RStreamsError


def called_elsewhere(run: TrioToken, call: str, owner: str) -> RStreamsError | None:
    """Return the error for a `call` of `owner`, which lives in `run`, from another thread or trio run, if it is one.

    If `run` has ended, so has `owner`: then that is the reason.
    """
    if trio.lowlevel.in_trio_run() and trio.lowlevel.current_trio_token() is run:
        return None
    if _has_ended(run):
        return ConnectionLost(f"{call}: {owner} was closed from this side, and its event loop has ended")
    text = "it was called in another thread or trio run than its own, and signals cannot cross from one to another"
    asyncio = "under asyncio by asyncio.run_coroutine_threadsafe"
    ways = f"call it there by trio.from_thread.run or run_sync, {asyncio}, or use rstreams.blocking"
    return ConfigError(f"{call} of {owner}: {text}: {ways}")


def _has_ended(run: TrioToken) -> bool:
    try:
        run.run_sync_soon(_nothing)
    except trio.RunFinishedError:
        return True
    return False


def _nothing() -> None:
    """Do nothing: only whether it can be called is the matter."""
