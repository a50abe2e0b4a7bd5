"""A node's store: opened with the node, heard in its trio run, closed behind its addresses."""

from __future__ import annotations

import os
from contextlib import suppress
from contextvars import Context, copy_context

import trio

from rstreams import _machine
from rstreams._checks.choices import require_flag
from rstreams.errors import ConfigError
from rstreams.store import Store


class NodeStore:
    """The store of one node, or none.

    Args:
        path: The directory of the store; None: the node remembers nothing.
        secure_delete: As for `Store`.

    Attributes:
        opened_in_s: How long it took to open it, in seconds.
        recovered: How many messages were in it then.

    Errors: `ConfigError` for a path that is not a path; `StoreError` as for `Store`.
    Context: The constructor waits for the disk. The rest belongs to the node's trio run.
    """

    def __init__(self, path: str | os.PathLike[str] | None, *, secure_delete: bool = False) -> None:
        if path is not None and (not isinstance(path, str | os.PathLike) or not os.fspath(path)):
            msg = f"store={path!r:.80}: it must be the path of a directory, or None"
            raise ConfigError(msg)
        require_flag("", "secure_delete", secure_delete)
        self._token: trio.lowlevel.TrioToken | None = None
        self._context: Context | None = None  # that of `run`, while it runs
        self._failed: BaseException | None = None
        self._bell = trio.Event()
        began = _machine.monotonic()
        self._store = None if path is None else Store(path, self._notify, secure_delete=secure_delete)
        self.opened_in_s = _machine.monotonic() - began
        self.recovered = 0 if self._store is None else self._store.messages

    @property
    def store(self) -> Store | None:
        """The store; None if the node has none."""
        return self._store

    def require(self, option: str) -> Store:
        """Return the store.

        Errors: `ConfigError` that names `option` if there is none.
        """
        if self._store is None:
            msg = f"{option}: the node has no store: use Node(store=PATH)"
            raise ConfigError(msg)
        return self._store

    async def run(self) -> None:
        """Tell the addresses what the store has done, until cancelled.

        The store's thread has the trio run do that, without waking this task: a durable send is answered sooner then.
        This task raises what the addresses raise.
        """
        if self._store is None:
            return
        self._context = copy_context()
        self._token = trio.lowlevel.current_trio_token()
        try:
            self._finish()
            await self._bell.wait()
        finally:
            self._context = None
        if self._failed is not None:
            raise self._failed

    async def close(self) -> None:
        """Carry out all changes and close the store."""
        if self._store is not None:
            with trio.CancelScope(shield=True):
                while await trio.to_thread.run_sync(self._store.flush):
                    self._store.finish()  # a message may go on to another queue, and then leave this one
                await trio.to_thread.run_sync(self._store.close)
            self._store.finish()

    def _notify(self) -> None:
        """Wake `run`, from the store's thread."""
        if self._token is not None:
            with suppress(trio.RunFinishedError):  # the run was interrupted; the store closes with the process
                self._token.run_sync_soon(self._finish, idempotent=True)

    def _finish(self) -> None:
        if self._store is None or self._context is None or self._failed is not None:
            return
        try:
            self._context.run(self._store.finish)
        except BaseException as error:  # trio itself would end with it
            self._failed = error
            self._bell.set()
