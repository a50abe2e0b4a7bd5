"""Attach frames between the engine's link and plain values."""

from __future__ import annotations

from typing import Final, Literal

import cproton
from cproton_ffi import lib

from rstreams.net._proton.conditions import read_text
from rstreams.net._proton.data import read_map, read_symbols, write_map, write_symbols
from rstreams.net._proton.pointers import Pointer
from rstreams.protocol.frames import COORDINATOR, Attach, Expiry, Role, Settlement

_DISTRIBUTIONS: Final[dict[Literal["move", "copy"], int]] = {
    "move": lib.PN_DIST_MODE_MOVE,
    "copy": lib.PN_DIST_MODE_COPY,
}
_DISTRIBUTION_NAMES: Final[dict[int, Literal["", "move", "copy"]]] = {
    code: name for name, code in _DISTRIBUTIONS.items()
}
_EXPIRIES: Final[dict[Expiry, int]] = {
    "link-detach": lib.PN_EXPIRE_WITH_LINK,
    "session-end": lib.PN_EXPIRE_WITH_SESSION,
    "connection-close": lib.PN_EXPIRE_WITH_CONNECTION,
    "never": lib.PN_EXPIRE_NEVER,
}
_EXPIRY_NAMES: Final[dict[int, Expiry]] = {code: name for name, code in _EXPIRIES.items()}
_KEPT_DURABLY: Final = lib.PN_DELIVERIES


def write_attach(pointer: Pointer, frame: Attach) -> None:
    """Write the fields of `frame` to the link at `pointer`; the engine sends them when the link is opened."""
    source, target = lib.pn_link_source(pointer), lib.pn_link_target(pointer)
    _write_address(source, frame.source)
    _write_address(target, frame.target)
    receives = frame.role is Role.RECEIVER
    ours, theirs = (target, source) if receives else (source, target)
    if frame.dynamic:
        made = frame.target if receives else frame.source
        # Either it asks the peer for an address and has none itself, or it names one made here (3.5.3, 3.5.4).
        lib.pn_terminus_set_dynamic(ours if made else theirs, 1)
    _write_keeping(theirs, frame.expiry, durable=frame.durable)
    _write_keeping(ours, frame.own_expiry, durable=frame.own_durable)
    lib.pn_terminus_set_timeout(theirs, frame.expiry_timeout_s)
    if frame.filters:
        write_map(lib.pn_terminus_filter(source), frame.filters)
    if frame.capabilities:
        write_symbols(lib.pn_terminus_capabilities(theirs), frame.capabilities)
    if frame.properties:
        write_map(lib.pn_link_properties(pointer), frame.properties)
    if frame.max_message_bytes:
        lib.pn_link_set_max_message_size(pointer, frame.max_message_bytes)
    if frame.distribution:
        lib.pn_terminus_set_distribution_mode(source, _DISTRIBUTIONS[frame.distribution])
    lib.pn_link_set_snd_settle_mode(pointer, _sender_mode(frame))
    lib.pn_link_set_rcv_settle_mode(pointer, lib.PN_RCV_SECOND if frame.settles_second else lib.PN_RCV_FIRST)


def _write_keeping(terminus: Pointer, expiry: Expiry, *, durable: bool) -> None:
    if durable:
        lib.pn_terminus_set_durability(terminus, _KEPT_DURABLY)
    if expiry != "session-end":  # the default, which is not sent
        lib.pn_terminus_set_expiry_policy(terminus, _EXPIRIES[expiry])


def _is_durable(terminus: Pointer) -> bool:
    return bool(lib.pn_terminus_get_durability(terminus) != lib.PN_NONDURABLE)


def _read_expiry(terminus: Pointer) -> Expiry:
    return _EXPIRY_NAMES.get(lib.pn_terminus_get_expiry_policy(terminus), "session-end")


def _sender_mode(frame: Attach) -> int:
    if frame.mixed:
        mode = lib.PN_SND_MIXED
    elif frame.settlement is Settlement.AT_MOST_ONCE:
        mode = lib.PN_SND_SETTLED
    else:
        mode = lib.PN_SND_UNSETTLED
    return int(mode)


def read_attach(pointer: Pointer, name: str) -> Attach:
    """Return the peer's attach; a field with a value that the specification does not allow counts as absent."""
    source, target = lib.pn_link_remote_source(pointer), lib.pn_link_remote_target(pointer)
    sends = bool(lib.pn_link_is_sender(pointer))
    # The terminus for this side as the peer wishes it, and the peer's own.
    ours, theirs = (source, target) if sends else (target, source)
    mode = lib.pn_link_remote_snd_settle_mode(pointer)
    return Attach(
        name,
        Role.RECEIVER if sends else Role.SENDER,
        _read_address(source),
        _read_address(target),
        Settlement.AT_MOST_ONCE if mode == lib.PN_SND_SETTLED else Settlement.AT_LEAST_ONCE,
        mixed=mode == lib.PN_SND_MIXED,
        settles_second=lib.pn_link_remote_rcv_settle_mode(pointer) == lib.PN_RCV_SECOND,
        distribution=_DISTRIBUTION_NAMES.get(lib.pn_terminus_get_distribution_mode(source), ""),
        dynamic=bool(lib.pn_terminus_is_dynamic(source) or lib.pn_terminus_is_dynamic(target)),
        durable=_is_durable(ours),
        expiry=_read_expiry(ours),
        expiry_timeout_s=int(lib.pn_terminus_get_timeout(ours)),
        own_durable=_is_durable(theirs),
        own_expiry=_read_expiry(theirs),
        filters=read_map(lib.pn_terminus_filter(source)),
        capabilities=read_symbols(lib.pn_terminus_capabilities(ours)),
        properties=read_map(lib.pn_link_remote_properties(pointer)),
        max_message_bytes=int(lib.pn_link_remote_max_message_size(pointer)),
    )


def _read_address(terminus: Pointer) -> str | None:
    """Return the address, "" for a terminus without one, or None for a null terminus."""
    kind = lib.pn_terminus_get_type(terminus)
    if kind == lib.PN_UNSPECIFIED:
        return None
    if kind == lib.PN_COORDINATOR:
        return COORDINATOR
    return read_text(lib.pn_terminus_get_address(terminus))


def _write_address(terminus: Pointer, address: str | None) -> None:
    if address is None:
        lib.pn_terminus_set_type(terminus, lib.PN_UNSPECIFIED)
    elif address:
        cproton.pn_terminus_set_address(terminus, address)
