"""What `Connection.publish` and `Connection.sender` begin with, and what publishing ends with."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from rstreams.errors import ConfigError
from rstreams.net.links.effectively_once import EFFECTIVELY_ONCE, Stamper
from rstreams.net.links.encoding import Encoding
from rstreams.protocol.sender import LinkSubscriber


@dataclass(frozen=True, slots=True)
class PublishResult:
    """What became of a published stream that ended well.

    Attributes:
        accepted: Items the peer accepted; at most once: items sent.
        complete: Whether these are all there were; False if `drain_and_close` ended it before the stream had.
    """

    accepted: int
    complete: bool = True

    def __repr__(self) -> str:
        """Return the numbers, and that it is not all if it is not."""
        return f"PublishResult(accepted={self.accepted}{'' if self.complete else ', complete=False'})"


def stamper_for(settlement: str, producer_id: str | None, first_sequence: int) -> Stamper | None:
    """Return what stamps messages that are sent with `settlement`; None if they go without.

    Errors: `ConfigError` for an id or a number that cannot be, or that goes with another settlement.
    """
    if settlement == EFFECTIVELY_ONCE:
        return Stamper(uuid.uuid4().hex if producer_id is None else producer_id, first_sequence)
    if producer_id is not None or first_sequence != 0:
        msg = f"producer_id and first_sequence go with settlement='effectively_once', not with {settlement!r}"
        raise ConfigError(msg)
    return None


def naming_the_item(
    call: str, end: LinkSubscriber[Any], error: BaseException, encoding: Encoding | None = None
) -> BaseException:
    """Return what ended `call`; if that is an item that cannot be encoded, the error says which one it is."""
    told = error if encoding is None else encoding.told(error)
    if not isinstance(told, ConfigError) or not (end.unencodable or told is not error):
        return error
    before = f"{end.accepted} before it were accepted"
    if end.outcome_unknown:
        before += f", of {end.outcome_unknown} that is not known"
    named = ConfigError(f"{call}: item {end.accepted + end.outcome_unknown}, counted from 0 ({before}): {told}")
    named.outcome_unknown = told.outcome_unknown
    named.__cause__ = told
    return named
