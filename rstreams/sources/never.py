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
        >>> await Stream.never().timeout(3600).on_error_return("an hour without an item").to_list()
        ['an hour without an item']
    """
    return ItemlessPublisher(None)
