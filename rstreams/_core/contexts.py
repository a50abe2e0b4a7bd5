"""Context variables of functions of the user: a call starts from those of its caller, not from what the last call set.

A task has one context, and nothing can take back what was set in it. Therefore a task that calls one function with many
items looks at its context after each call. If the call has changed it, another task does the rest. Such a look costs
little, and most functions change nothing. A context for each call would cost as much as the rest of an item's way.
"""

from __future__ import annotations

from contextvars import Context, copy_context


def has_changed(context: Context) -> bool:
    """Tell whether the current context differs from `context`, which was copied from it."""
    try:
        return copy_context() != context
    except Exception:  # a value that cannot be compared, such as an array: not the one from before
        return True
