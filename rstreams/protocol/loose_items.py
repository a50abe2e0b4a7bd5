"""The items that a link may settle itself to make room: those that are claimed loosely, the oldest first.

It does so when its window has no room for further items that the subscriber wants. Until more items have come than the
window holds, the link accepts one delivery at a time, and only as many as it must. After that, a failure would lose the
oldest items in any case. The link then accepts a quarter of the window at once, as fast as for a subscriber that keeps
no items.
"""

from __future__ import annotations

from typing import Final

from rstreams._core.claims import DONE, Claims
from rstreams.protocol.credit import CreditLedger

_FEW: Final = 64
"""The number of claims at which those that have ended are first removed."""


class LooseItems:
    """The items that a link may settle itself to make room.

    Attributes:
        claims: The claims, the oldest first.
        wanted: Whether the sender has no room either, and waits for settlement.
    """

    __slots__ = ("_overflows", "_prune_at", "_slack", "claims", "wanted")

    def __init__(self) -> None:
        """Start without items."""
        self.wanted = False
        self.claims: dict[Claims, None] = {}
        self._prune_at = _FEW
        self._slack = False  # some have been accepted
        self._overflows = False  # and more have come since then

    def add(self, claims: Claims) -> None:
        """Note that these may be settled."""
        self.claims[claims] = None
        if len(self.claims) >= self._prune_at:
            self.claims = {each: None for each in self.claims if len(each)}
            self._prune_at = max(_FEW, 2 * len(self.claims))

    def more_comes(self) -> None:
        """Note that items have come."""
        self._overflows = self._slack
        self.wanted = False  # the sender has found room

    def make_room(self, ledger: CreditLedger, credit: int) -> bool:
        """Accept the oldest items if the items in hand leave no room for more; return whether any were accepted."""
        if not self.claims:
            return False
        quarter = ledger.window // 4 if self._overflows else 0
        if ledger.starves(credit, quarter):
            most = left = max(ledger.pack, quarter)
        elif self.wanted:
            most = left = -(-ledger.unsettled // 2)
        else:
            return False
        while self.claims and left:
            oldest = next(iter(self.claims))
            left -= oldest.end_some(left, DONE)
            if not len(oldest):
                del self.claims[oldest]
        if left == most:
            return False  # none may be accepted yet; the sender still waits
        self._slack = True
        self.wanted = False
        return True
