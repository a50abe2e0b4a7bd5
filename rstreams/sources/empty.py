"""empty: no item, only the end."""

from __future__ import annotations

from typing import Never

from rstreams.abc import Publisher, Subscriber
from rstreams.sources._itemless import ItemlessPublisher


def empty() -> Publisher[Never]:
    """Complete at once.

        empty()
        |

    Demand: Completes without demand.
    Cancels: A cancel inside `on_subscribe` prevents the completion.
    Spec: Reactive Streams 1.5.

    Example:
        >>> await Stream.empty().to_list()
        []
    """
    return ItemlessPublisher(_complete)


def _complete(subscriber: Subscriber[Never]) -> None:
    subscriber.on_complete()
