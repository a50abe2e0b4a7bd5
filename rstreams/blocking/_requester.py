"""A requester for threads."""

# ruff: noqa: ANN401 - options are those of the model that `like` names; items are any values

from __future__ import annotations

from functools import partial
from typing import Any, Generic, TypeVar

from rstreams.blocking._stream import BlockingStream
from rstreams.net.request_reply.requester import Requester
from rstreams.runtime.portal import Portal
from rstreams.runtime.signatures import like_method

T = TypeVar("T")


class BlockingRequester(Generic[T]):
    """Sends requests to one address and waits for their replies; made by `BlockingConnection.requester`.

    Context: Any thread but the connection's own; several may ask at the same time.
    """

    def __init__(self, portal: Portal, requester: Requester[T]) -> None:
        self._portal = portal
        self._requester = requester

    def __repr__(self) -> str:
        return f"<blocking {self._requester!r}>"

    @property
    def late(self) -> int:
        """Replies that came when no request waited for them any more."""
        return self._requester.late

    @like_method(Requester.request)
    def request(self, item: Any, **options: Any) -> T:
        """Send a request and return the item in its reply; see `Requester.request`."""
        return self._portal.run(partial(self._requester.request, item, **options))

    @like_method(Requester.stream)
    def stream(self, item: Any, **options: Any) -> BlockingStream[T]:
        """Return the stream of the replies to a request; see `Requester.stream`."""
        return BlockingStream(self._portal, self._requester.stream(item, **options))
