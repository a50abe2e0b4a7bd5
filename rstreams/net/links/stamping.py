"""The items of a publisher, made messages with the context of a trace before they come to their link.

Most items come one by one or in runs, each with a context of its own: that of the message that it was made of. Items
that are drawn come from an iterator, and have the context of whoever publishes them. They are made messages together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from rstreams._core.fast_paths import draws_of
from rstreams._stages.steps import StepStage
from rstreams.abc import Subscriber

_BODIES: Final = {bytes}


class StampingStage(StepStage[Any, bytes]):
    """Passes on the message of each item.

    Args:
        downstream: Gets the messages.
        stamp: Makes the message of an item, in the context of that.
        stamp_all: Makes the messages of items that are all bytes; None: `stamp` does.
    """

    __slots__ = ("_stamp", "_stamp_all")

    operator = "stamping"

    def __init__(
        self,
        downstream: Subscriber[bytes],
        stamp: Callable[[Any], bytes],
        stamp_all: Callable[[list[bytes]], list[bytes]] | None,
    ) -> None:
        super().__init__(downstream)
        self._stamp = stamp
        self._stamp_all = stamp_all

    def on_next(self, item: Any) -> None:  # noqa: ANN401 - whatever is published
        """Pass on the message of an item."""
        if self._ended:
            return
        try:
            message = self._stamp(item)
        except Exception as error:
            self._fail_item(error)
            return
        if not self._ended:
            self._downstream.on_next(message)

    def _through(self, items: Iterator[Any]) -> Iterator[bytes]:
        stamp = self._stamp
        for item in items:
            try:
                message = stamp(item)
            except Exception as error:
                self._fail_item(error)
                return
            if self._ended:
                return
            yield message

    def draws(self) -> Callable[[int], list[bytes]] | None:
        """Return a function that draws messages, if the items can be drawn; see `Drawable`."""
        draw = draws_of(self._upstream)
        return None if draw is None else lambda n: self._stamped(draw(n))

    def _stamped(self, items: list[Any]) -> list[bytes]:
        if self._stamp_all is not None and set(map(type, items)) == _BODIES:
            return self._stamp_all(items)
        messages: list[bytes] = []
        try:
            messages.extend(map(self._stamp, items))
        except Exception as error:
            self._fail_item(error)
        return messages
