"""The checks of a terminus at the peer: filters and capabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rstreams._checks.refusals import refuse_value
from rstreams._codec import Symbol, encode_symbols, encode_value
from rstreams.errors import ConfigError


def require_filters(filters: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a copy of the values by the filter's name; None stands for no filters.

    Errors: `ConfigError` with the filter's name, unless AMQP can carry all of it.
    """
    if filters is None:
        return {}
    if not isinstance(filters, Mapping):
        refuse_value("", "filters", filters, "a mapping of values by the filter's name")
    for name, value in filters.items():
        if not _is_symbol(name):
            msg = f"filters: {name!r:.80} is not a filter's name: it must be ASCII text that is not empty"
            raise ConfigError(msg)
        try:
            encode_value({Symbol(name): value})
        except ConfigError as error:
            msg = f"filters: the value of {name!r:.80} cannot be sent: {error}"
            raise ConfigError(msg) from None
    return dict(filters)


def require_capabilities(capabilities: Sequence[str]) -> tuple[str, ...]:
    """Return the capabilities that the peer's end must have.

    Errors: `ConfigError` unless each is text in ASCII that a frame can carry.
    """
    shown = f"capabilities={capabilities!r:.80}"
    if not isinstance(capabilities, Sequence) or isinstance(capabilities, str | bytes):
        refuse_value("", "capabilities", capabilities, "a list of names, such as ['queue']")
    for name in capabilities:
        if not _is_symbol(name):
            msg = f"{shown}: {name!r:.80} is not a capability: it must be ASCII text that is not empty"
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
