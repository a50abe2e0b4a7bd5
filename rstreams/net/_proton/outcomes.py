"""The outcomes of deliveries, read from the engine and written to it."""

from __future__ import annotations

from typing import Final

from cproton_ffi import lib

from rstreams.errors import Condition
from rstreams.net._proton.conditions import read_condition, write_condition
from rstreams.net._proton.data import read_map, write_map
from rstreams.net._proton.pointers import Pointer
from rstreams.protocol.delivery import ACCEPTED, RELEASED, Outcome
from rstreams.protocol.packing import without_texts

OUTCOME_CODES: Final = {
    "accepted": lib.PN_ACCEPTED,
    "rejected": lib.PN_REJECTED,
    "released": lib.PN_RELEASED,
    "modified": lib.PN_MODIFIED,
}
TERMINAL: Final = frozenset(OUTCOME_CODES.values())


def read_outcome(delivery: Pointer, state: int) -> Outcome:
    """Return the peer's outcome of a delivery, which is in this state."""
    if state == lib.PN_ACCEPTED:
        return ACCEPTED
    disposition = lib.pn_delivery_remote(delivery)
    if state == lib.PN_REJECTED:
        condition = read_condition(lib.pn_disposition_condition(disposition))
        name, description, _ = condition or (Condition.INTERNAL_ERROR.value, "", {})
        return Outcome("rejected", name, description)
    if state == lib.PN_MODIFIED:
        return Outcome(
            "modified",
            delivery_failed=bool(lib.pn_disposition_is_failed(disposition)),
            undeliverable_here=bool(lib.pn_disposition_is_undeliverable(disposition)),
            annotations=read_map(lib.pn_disposition_annotations(disposition)),
        )
    if state == lib.PN_RELEASED:
        return RELEASED
    # The receiver may have done anything with it. If the message is sent again, that counts as another attempt.
    what = f"with the state 0x{state:02x}, which is no outcome" if state else "without an outcome"
    return Outcome("modified", description=f"it settled the item {what}", delivery_failed=True)


_BESIDE_ANNOTATIONS_BYTES: Final = 128
"""The most bytes of a disposition's frame besides its annotations."""


def write_outcome(disposition: Pointer, outcome: Outcome, frame_bytes: int) -> None:
    """Note our outcome, in one frame of at most `frame_bytes` bytes; 0: of any size."""
    if outcome.kind == "rejected":
        name = outcome.condition or Condition.INTERNAL_ERROR.value
        condition = lib.pn_disposition_condition(disposition)
        write_condition(condition, name, outcome.description, {}, frame_bytes)
    else:
        lib.pn_disposition_set_failed(disposition, outcome.delivery_failed)
        lib.pn_disposition_set_undeliverable(disposition, outcome.undeliverable_here)
        data = lib.pn_disposition_annotations(disposition)
        for annotations in (outcome.annotations, without_texts(outcome.annotations)):
            if annotations:
                write_map(data, annotations)
                if not frame_bytes or lib.pn_data_encoded_size(data) <= frame_bytes - _BESIDE_ANNOTATIONS_BYTES:
                    return
                lib.pn_data_clear(data)  # a disposition is one frame
