"""A requester for threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rstreams.net.request_reply.requester import Requester
from rstreams.runtime.portal import Portal
from rstreams.stream import Stream

if TYPE_CHECKING:
    from rstreams.blocking import BlockingStream


class BlockingRequester:
    """Sends requests to one address and waits for their replies; made by `BlockingConnection.requester`.

    Context: Any thread but the connection's own; several may ask at the same time.
    """

    def __init__(
        self, portal: Portal, requester: Requester[Any], blocking: Callable[[Stream[Any]], BlockingStream[Any]]
    ) -> None:
        self._portal = portal
        self._requester = requester
        self._blocking = blocking

    def __repr__(self) -> str:
        return f"<blocking {self._requester!r}>"

    @property
    def late(self) -> int:
        """Replies that nobody waited for any more."""
        return self._requester.late

    def request(
        self,
        item: Any,  # noqa: ANN401 - a `Message`, or any value AMQP carries
        *,
        timeout_s: float | None = None,
        retry_lost: bool = False,
    ) -> Any:  # noqa: ANN401 - whatever `decode` makes of the reply
        """Send a request and return what the reply to it carries; see `Requester.request`."""

        async def request() -> Any:  # noqa: ANN401 - likewise
            return await self._requester.request(item, timeout_s=timeout_s, retry_lost=retry_lost)

        return self._portal.run(request)

    def stream(self, item: Any, **options: Any) -> BlockingStream[Any]:  # noqa: ANN401 - as there
        """Return the stream of the replies to a request; see `Requester.stream`."""
        return self._blocking(self._requester.stream(item, **options))
