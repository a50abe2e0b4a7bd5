"""The checks of what a link may ask of the peer's terminus: filters and capabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rstreams._codec import Symbol, encode_symbols, encode_value
from rstreams.errors import ConfigError


def check_filters(filters: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a copy of the values by the filter's name; None stands for none.

    Errors: `ConfigError` naming the filter, unless AMQP can carry all of it.
    """
    if filters is None:
        return {}
    if not isinstance(filters, Mapping):
        msg = f"filters={filters!r:.80}: it must be a mapping of values by the filter's name"
        raise ConfigError(msg)
    for name, value in filters.items():
        if not _is_symbol(name):
            msg = f"filters: {name!r:.80} is no filter's name, which is text in ASCII that is not empty"
            raise ConfigError(msg)
        try:
            encode_value({Symbol(name): value})
        except ConfigError as error:
            msg = f"filters: the value of {name!r:.80} cannot be sent: {error}"
            raise ConfigError(msg) from None
    return dict(filters)


def check_capabilities(capabilities: Sequence[str]) -> tuple[str, ...]:
    """Return the capabilities that the peer's end must have.

    Errors: `ConfigError` unless each is text in ASCII that a frame can carry.
    """
    shown = f"capabilities={capabilities!r:.80}"
    if not isinstance(capabilities, Sequence) or isinstance(capabilities, str | bytes):
        msg = f"{shown}: it must be a list of names, such as ['queue']"
        raise ConfigError(msg)
    for name in capabilities:
        if not _is_symbol(name):
            msg = f"{shown}: {name!r:.80} is no capability, which is text in ASCII that is not empty"
            raise ConfigError(msg)
    if capabilities:
        try:
            encode_symbols(capabilities)
        except ConfigError as error:
            msg = f"{shown}: {error}"
            raise ConfigError(msg) from None
    return tuple(capabilities)


def _is_symbol(name: object) -> bool:
    return isinstance(name, str) and name.isascii() and bool(name)
