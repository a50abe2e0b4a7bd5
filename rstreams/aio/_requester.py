"""A requester for asyncio."""

from __future__ import annotations

from functools import partial
from typing import Any, Generic, TypeVar

from rstreams.aio._guest import Guest
from rstreams.net.request_reply.requester import Requester as TrioRequester
from rstreams.runtime.signatures import like_method
from rstreams.stream import Stream

T = TypeVar("T")


class Requester(Generic[T]):
    """Sends requests to one address and waits for their replies; made by `Connection.requester`.

    Attributes:
        address: The peer's name for the target of requests.

    Context: Any asyncio task of the connection's loop; several may ask at the same time.
    """

    def __init__(self, guest: Guest, requester: TrioRequester[T]) -> None:
        self._guest = guest
        self._requester = requester
        self.address = requester.address

    def __repr__(self) -> str:
        return repr(self._requester)

    @property
    def in_flight(self) -> int:
        """The requests whose replies have not come yet."""
        return self._requester.in_flight

    @property
    def late(self) -> int:
        """Replies that nobody waited for any more: accepted, counted and dropped."""
        return self._requester.late

    @like_method(TrioRequester.request)
    async def request(self, item: Any, **options: Any) -> T:  # noqa: ANN401 - as the model that `like_method` names
        """Send a request and return what the reply to it carries; see `rstreams.net`'s `Requester.request`."""
        return await self._guest.run(partial(self._requester.request, item, **options))

    @like_method(TrioRequester.stream)
    def stream(self, item: Any, **options: Any) -> Stream[T]:  # noqa: ANN401 - likewise
        """Return the stream of the replies to a request, which is sent for each subscription."""
        return self._requester.stream(item, **options)
