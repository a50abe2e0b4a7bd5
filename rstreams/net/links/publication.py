"""The beginning of `Connection.publish` and `Connection.sender`, and the result of publishing."""

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
    """The result of publishing a stream that ended well.

    Attributes:
        accepted: Items that the peer accepted; at most once: items sent.
        complete: Whether these are all items of the stream; False if `drain_and_close` ended it before.
    """

    accepted: int
    complete: bool = True

    def __repr__(self) -> str:
        """Return the number, and whether it is not complete."""
        return f"PublishResult(accepted={self.accepted}{'' if self.complete else ', complete=False'})"


def stamper_for(settlement: str, producer_id: str | None, first_sequence: int) -> Stamper | None:
    """Return the stamper of messages that are sent with `settlement`; None if they have no stamps.

    Errors: `ConfigError` for an id or a number that is not allowed, or that goes with another settlement.
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
    """Return the error of `call`; if an item cannot be encoded, the error names the item."""
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
