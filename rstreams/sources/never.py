"""never: no signal at all."""

from __future__ import annotations

from typing import Never

from rstreams.abc import Publisher
from rstreams.sources._itemless import ItemlessPublisher


def never() -> Publisher[Never]:
    """Emit nothing and do not end.

        never()
        ------->

    Demand: Counted, and never met; a request for less than one item is answered with `DemandError` as everywhere.
    Cancels: Ends the subscription.
    Spec: Reactive Streams 3.9, 3.13.

    Example:
        >>> with trio.move_on_after(3600) as waiting:
        ...     await Stream.never().to_list()
        >>> waiting.cancelled_caught
        True
    """
    return ItemlessPublisher(None)
