"""Refusals that pass: RabbitMQ refuses a stream for about a second after the leader of the stream has died.

In that second a broker may also fail while it reads its copy of the stream. It then ends the session with
`amqp:internal-error`. While most brokers of a cluster are away, the others do not answer about a stream.
"""

from __future__ import annotations

from typing import Final

import trio

from rstreams.errors import RStreamsError
from rstreams_spark._log import LOG_NOT_SERVED, say

_FIRST_WAIT_S: Final = 0.05
_LONGEST_WAIT_S: Final = 2.0


class PassingRefusals:
    """Waits before something is asked for again, longer each time, and only for so long in all.

    Context: One trio task.
    """

    def __init__(self, limit_s: float) -> None:
        """Wait for `limit_s` seconds in all; 0: not at all."""
        self._limit_s = limit_s
        self.renew()

    def renew(self) -> None:
        """Begin anew, because the peer has not refused."""
        self._since: float | None = None
        self._wait_s = _FIRST_WAIT_S

    async def wait(self, error: RStreamsError) -> None:
        """Wait after an error; the first one since the beginning is logged.

        Errors: The error itself, if the time is over.
        """
        now = trio.current_time()
        since = now if self._since is None else self._since
        if now - since >= self._limit_s:
            raise error
        if self._since is None:
            self._since = now
            say(
                LOG_NOT_SERVED,
                "rstreams source",
                f"the peer cannot serve a log now, and is asked again for up to {self._limit_s:g} s "
                f"(option maxReconnectTime): {type(error).__name__}: {error}",
            )
        await trio.sleep(self._wait_s)
        self._wait_s = min(2 * self._wait_s, _LONGEST_WAIT_S)
