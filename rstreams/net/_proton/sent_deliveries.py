"""The unsettled deliveries that a link has sent, and their receiver's outcomes."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter

from cproton_ffi import lib

from rstreams.net._proton.host_connection import HostConnection
from rstreams.net._proton.loops import Loops, as_delivery
from rstreams.net._proton.outcomes import OUTCOME_CODES, TERMINAL, read_outcome, write_outcome
from rstreams.net._proton.pointers import Delivery, Pointer
from rstreams.protocol.delivery import ACCEPTED, Outcome
from rstreams.protocol.frames import Disposition


class SentDeliveries:
    """Deliveries in the order in which they were sent, in runs: their tags, and the loops' names for them.

    Attributes:
        at_s: When the last of them was sent, in seconds of the run; infinity before the first one.

    Context: Only the task that owns the connection.
    """

    __slots__ = ("_loops", "_runs", "at_s")

    def __init__(self, loops: Loops) -> None:
        """Have no deliveries."""
        self.at_s = math.inf
        self._loops = loops
        self._runs: list[tuple[Sequence[Hashable], Sequence[Delivery]]] = []

    def __bool__(self) -> bool:
        return bool(self._runs)

    @property
    def last(self) -> Pointer:
        """The delivery that was sent last; there must be one."""
        return as_delivery(self._runs[-1][1][-1])

    def add(self, tags: Sequence[Hashable], deliveries: Sequence[Delivery]) -> None:
        """Add deliveries that have been sent."""
        self._runs.append((tags, deliveries))

    def forget_last(self, tag: Hashable) -> None:
        """Forget the delivery that was sent last, if it has this tag: its outcome does not matter any more."""
        if self._runs and tag in self._runs[-1][0]:
            self._runs.pop()  # a delivery in parts is a run by itself

    def release(self, most: int) -> None:
        """Settle the first deliveries, at most `most`; their outcomes will not be handed over."""
        left = most
        while self._runs and left > 0:
            tags, deliveries = self._runs[0]
            self._loops.settle(deliveries[:left], lib.PN_RELEASED)
            if len(tags) > left:
                self._runs[0] = tags[left:], deliveries[left:]
            else:
                del self._runs[0]
            left -= len(tags)

    def take_decided(self, noted: int, host: HostConnection) -> Iterator[Disposition]:
        """Settle the deliveries that have an outcome of the peer, and yield them in runs of equal outcomes.

        A peer nearly always settles in order. Therefore the deliveries that were sent first are looked at first. The
        rest is looked at only if fewer outcomes were found than were noted.

        Args:
            noted: How many outcomes have come.
            host: The connection.
        """
        runs = self._runs
        accepted: list[Sequence[Hashable]] = []
        while runs:
            tags, deliveries = runs[0]
            count = self._loops.settle_accepted(deliveries)
            if count:
                accepted.append(tags[:count])
                noted -= count
            if count < len(tags):
                runs[0] = (tags[count:], deliveries[count:])
                break
            del runs[0]
        for run in accepted:
            yield Disposition(run, ACCEPTED)
        if noted > 0:
            for outcome, decided in groupby(self._take_scattered(host), itemgetter(1)):
                yield Disposition([tag for tag, _ in decided], outcome)

    def _take_scattered(self, host: HostConnection) -> list[tuple[Hashable, Outcome]]:
        decided: list[tuple[Hashable, Outcome]] = []
        left: list[tuple[Sequence[Hashable], Sequence[Delivery]]] = []
        for tags, deliveries in self._runs:
            start = 0
            for at, delivery in enumerate(map(as_delivery, deliveries)):
                state, settled = lib.pn_delivery_remote_state(delivery), bool(lib.pn_delivery_settled(delivery))
                if state in TERMINAL or settled:
                    outcome = read_outcome(delivery, state)
                    decided.append((tags[at], outcome))
                    if not settled:
                        _repeat(delivery, outcome, host.peer_frame_bytes)
                    lib.pn_delivery_settle(delivery)
                    if start < at:
                        left.append((tags[start:at], deliveries[start:at]))
                    start = at + 1
            if start < len(tags):
                left.append((tags[start:], deliveries[start:]))
        self._runs = left
        return decided


def _repeat(delivery: Pointer, outcome: Outcome, peer_frame_bytes: int) -> None:
    """Repeat a receiver's outcome to it, because it settles second; without the error, which is the peer's."""
    if outcome.kind == "modified":
        write_outcome(lib.pn_delivery_local(delivery), outcome, peer_frame_bytes)
    lib.pn_delivery_update(delivery, OUTCOME_CODES[outcome.kind])
