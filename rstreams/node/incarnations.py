"""Which log this is: the id of a log, or of a stream with positions, that no other one at its address has.

An offset means something only together with its log. A log in memory is gone with its node, and another one begins at
offset 0 at the same address. A reader that goes on behind offset 9 would miss the first ten messages of the new log,
and would not know. Therefore it names the id of the log that its offset is of, and is refused by any other log.

A log in a store keeps its id there, and has the same one after a restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rstreams import _machine
from rstreams.errors import MADE_ANEW, Condition, ProtocolError, StoreError
from rstreams.net.links.offsets import INCARNATION, read_incarnation
from rstreams.node.memory_partition import AnyPartition, MemoryPartition
from rstreams.node.written import Begun

_RECORD: Final = "incarnation"
_BYTES: Final = 8


class Incarnation:
    """The id of a partition of a log.

    Args:
        kept: Where the messages of the partition are; a partition that has no id yet gets one.
        sync_s: As for `rstreams.store.Partition.append`.

    Attributes:
        id: The id.
        unsaved: The record that must go into the store with the next messages; empty if it is there.
    """

    __slots__ = ("_begun", "_kept", "_sync_s", "id", "unsaved")

    def __init__(self, kept: AnyPartition, sync_s: float) -> None:
        self.unsaved: dict[str, bytes] = {}
        self._kept = kept
        self._sync_s = sync_s
        self._begun = Begun()
        known = kept.records.get(_RECORD)
        self.id = _machine.fresh_bytes(_BYTES).hex() if known is None else known.decode()
        if known is None and not isinstance(kept, MemoryPartition):  # which ends with this object
            self.unsaved = {_RECORD: self.id.encode()}
            self._save()

    def safe(self) -> Begun | None:
        """Return what tells when the id may be told to a peer: it is in the store; None: it may be told now.

        Somebody to whom it was told before would find another log after a kill, although nothing was lost.
        """
        if self.unsaved and self._begun.is_known:  # it could not be written
            self._save()
        return None if self._begun.is_known else self._begun

    def _save(self) -> None:
        self._begun = Begun(1)
        self._kept.put(_RECORD, self.unsaved[_RECORD], self._saved, sync_s=self._sync_s)

    def _saved(self, error: StoreError | None) -> None:
        if error is None:  # else it goes with the next messages
            self.unsaved = {}
        self._begun.done(error)


def require_incarnation(filters: Mapping[str, Any], incarnation: str, what: str) -> dict[str, Any]:
    """Return the filter that names an incarnation, if a peer wants to go on in this one.

    Args:
        filters: The filters of the peer.
        incarnation: The id of the log or stream.
        what: The log or stream, for the message.

    Errors: `ProtocolError`, with `MADE_ANEW` if the peer has a position of another one.
    """
    try:
        wanted = read_incarnation(filters)
    except ValueError as error:
        raise ProtocolError(Condition.INVALID_FIELD.value, str(error)) from None
    if wanted is None:
        return {}
    if wanted != incarnation:
        text = (
            f"{what} was made anew: the position that the link goes on from is of incarnation {wanted!r:.80}, and this "
            f"one is {incarnation!r}. What the earlier one had behind that position is gone"
        )
        raise ProtocolError(MADE_ANEW, text)
    return {INCARNATION: filters[INCARNATION]}
