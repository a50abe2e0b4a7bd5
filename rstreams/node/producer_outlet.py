"""An outlet to an address of the node: a producer there, as long as messages wait for room."""

from __future__ import annotations

from collections.abc import Callable

from rstreams.abc import Subscriber
from rstreams.net.links.outlet import Outlet


class ProducerOutlet(Outlet):
    """Passes messages on when the address has room for them.

    Args:
        make: Makes a producer's end at the address.
    """

    def __init__(self, make: Callable[[], Subscriber[bytes]]) -> None:
        super().__init__()
        self._make = make

    def _open(self) -> None:
        self.subscribe(self._make())

    def _idle(self) -> None:
        """Give back the promised room to other producers."""
        if self._subscriber is not None and not self._sending:
            self._gone()
            producer = self._close()
            if producer is not None:
                producer.on_complete()

    def _gone(self) -> None:
        """Hear that the producer is about to leave."""
