"""The thread of a subscription: it was made in this thread, and only this thread may call it.

Signals are plain calls without locks. A call from another thread could run in the middle of any other call. Such a call
is refused before it changes anything. Other threads use `trio.from_thread.run_sync`, `rstreams.blocking` or a portal.
"""

from __future__ import annotations

import threading
from threading import get_ident

from rstreams.errors import SpecViolation

__all__ = ["get_ident", "refuse_thread"]


def refuse_thread(call: str, owner: int, what: str = "the subscription") -> None:
    """Raise the error for a `call` from this thread on a subscription, or another thing, of the thread `owner`.

    Errors: `SpecViolation` of rule 2.7: calls on a subscription come one after the other.
    """
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    msg = (
        f"{call} was called in thread {threading.current_thread().name!r}, but {what} belongs to thread "
        f"{names.get(owner, owner)!r}: call it there, for instance by `trio.from_thread.run_sync` or "
        "`loop.call_soon_threadsafe`, or use rstreams.blocking"
    )
    rule = "2.7"
    raise SpecViolation(rule, msg)
