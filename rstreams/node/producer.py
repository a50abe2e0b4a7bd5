"""The node's end of a link that a peer sends on, for addresses that grant each producer its part of their room."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Protocol

from rstreams._core.sight import Scannable
from rstreams._core.subscription import ENDED
from rstreams._stages.drawing import Drawing, drawing_from
from rstreams.abc import Hold, Subscription
from rstreams.runtime.seldom import log_seldom

logger = logging.getLogger("rstreams.node")


class Receives(Protocol):
    """The address behind a `Producer`.

    Attributes:
        name: The name that peers attach to.
    """

    name: str

    def _join(self, producer: Producer) -> None: ...

    def _receive(self, producer: Producer, run: Sequence[bytes]) -> None: ...

    def _leave(self, producer: Producer) -> None: ...

    def explain(self) -> str:
        """Return the state of the address in one line."""
        ...


class Producer(Scannable):
    """The node's end of one producer link: the items that the address requests here become the producer's credit.

    An item is accepted when `on_next` returns: the address has stored it, or has passed it on.

    Attributes:
        outstanding: Items requested and not yet received.
        window: The most items it may have outstanding while there is room. Some addresses let it grow.
        ended: Whether the link has ended.
    """

    __slots__ = ("_address", "_drawing", "_subscription", "ended", "outstanding", "window")

    def __init__(self, address: Receives, window: int) -> None:
        self._address = address
        self._subscription: Subscription = ENDED
        self.outstanding = 0
        self.window = window
        self.ended = False
        self._drawing: Drawing[bytes] | None = None  # if the items can be drawn

    def on_subscribe(self, subscription: Subscription) -> None:
        """Join the address; a second subscription is cancelled."""
        if self._subscription is not ENDED or self.ended:
            subscription.cancel()  # 2.5: at most one live subscription
            return
        self._subscription = subscription
        self._drawing = drawing_from(subscription, self._take)
        self._address._join(self)  # noqa: SLF001 - the producer is a part of its address

    def on_next(self, item: bytes) -> None:
        """Pass a message to the address."""
        if self.ended:
            return
        if not self.outstanding:
            # 1.1: no room was granted for it, therefore it cannot be stored. A link cannot get here.
            text = "address %r: a producer sent more than was requested; its link is ended"
            log_seldom(logger, logging.WARNING, text, self._address.name, peer=self._address.name)
            self._subscription.hold().release()
            self._end()
            self._subscription.cancel()
            return
        self._address._receive(self, (item,))  # noqa: SLF001

    def on_run(self, items: Iterator[bytes]) -> None:
        """Pass many messages to the address; see `TakesRuns`."""
        run: list[bytes] = []
        try:
            run.extend(islice(items, self.outstanding))
        finally:  # if the next one cannot be had, those before it are taken nevertheless
            if run and not self.ended:
                self._address._receive(self, run)  # noqa: SLF001

    def on_error(self, error: BaseException) -> None:  # noqa: ARG002 - the reason changes nothing here
        """Leave the address."""
        self.on_complete()

    def on_complete(self) -> None:
        """Leave the address, when it has the items that are being drawn."""
        if self._drawing is None:
            self._end()
        else:
            self._drawing.end(self._end)

    @property
    def draws(self) -> bool:
        """Whether it draws its items as soon as they are requested."""
        return self._drawing is not None

    @property
    def stores(self) -> bool:
        """Whether the next message is stored, and not dropped because it was not requested."""
        return self.outstanding > 0 and not self.ended

    def stall(self) -> str:
        """Return why it asks for no more, for `explain` of the stream that is sent."""
        return self._address.explain()

    def hold(self) -> Hold:
        """Take a hold on the item that is being handed over."""
        return self._subscription.hold()

    def grant(self, n: int) -> None:
        """Request `n` more items from the producer; they count as outstanding before it can answer."""
        self.outstanding += n
        if self._drawing is None:
            self._subscription.request(n)
        else:
            self._drawing.request(n)

    def _take(self, run: list[bytes]) -> None:
        """Pass drawn items to the address, in two parts: behind the first one it grants more, and drawing goes on."""
        half = len(run) // 2
        for part in (run[:half], run[half:]) if half else (run,):
            self._address._receive(self, part)  # noqa: SLF001

    def _end(self) -> None:
        if not self.ended:
            self.ended = True
            if self._subscription is not ENDED:
                self._address._leave(self)  # noqa: SLF001
