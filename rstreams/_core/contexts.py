"""Context variables of functions of the user: a call starts from those of its caller, not from what the last call set.

A task has one context, and nothing can take back what was set in it. Therefore a task that calls one function with many
items looks at its context after each call. If the call has changed it, another task does the rest. Such a look costs
little, and most functions change nothing. A context for each call would cost as much as the rest of an item's way.

An item may have a context of its own that came with it, such as a trace. Then somebody has given a `ContextCarrier`,
and the stages that call a function later than the item has come keep the context beside the item
(`rstreams._stages.carrying`). Without a carrier they keep nothing, and do nothing else than without this module.
"""

from __future__ import annotations

from contextvars import Context, copy_context
from typing import Any, Protocol


class ContextCarrier(Protocol):
    """What knows the context that came with an item, and makes it the current one; all calls are of one thread."""

    def current(self) -> Any:  # noqa: ANN401 - whatever the carrier has
        """Return the current context."""
        ...

    def attach(self, context: Any, /) -> Any:  # noqa: ANN401 - likewise
        """Make a context the current one; return what `detach` needs."""
        ...

    def detach(self, token: Any, /) -> None:  # noqa: ANN401 - likewise
        """Make the context the current one that was it before the `attach` which returned `token`."""
        ...


_carriers: list[ContextCarrier] = []


def carry(carrier: ContextCarrier | None) -> None:
    """Have contexts kept beside items from now on, in every stage that is made later; None: no more."""
    _carriers[:] = [] if carrier is None else [carrier]


def carrier_here() -> ContextCarrier | None:
    """Return what makes contexts current; None: items have none."""
    return _carriers[0] if _carriers else None


def has_changed(context: Context) -> bool:
    """Tell whether the current context differs from `context`, which was copied from it."""
    try:
        return copy_context() != context
    except Exception:  # a value that cannot be compared, such as an array: not the one from before
        return True
