"""Where a read of a log begins and ends: "earliest", "latest", or a place for each partition."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias

from rstreams.errors import ConfigError

Place: TypeAlias = Literal["earliest", "latest"] | int | datetime
"""A place in a partition; a time means the first message at that time or later."""

Bound: TypeAlias = Place | Mapping[str, Place]
"""One place for all partitions, or a place for each one by its key, such as `events/0`."""

_WORDS: Final[Mapping[object, Place]] = {"earliest": "earliest", "latest": "latest", -2: "earliest", -1: "latest"}
_MOST: Final = 2**63

OFFSETS: Final = (
    "earliest, latest, or JSON with an offset for each partition, such as "
    '{"events": {"0": 23, "1": "latest"}}; -2 is earliest and -1 is latest'
)
TIMES: Final = (
    "milliseconds since 1970, a time such as 2026-11-22T08:00:00Z, or JSON with a time for each partition, such as "
    '{"events": {"0": 1793347200000}}'
)


def key_of(log: str, partition: int) -> str:
    """Return the key of a partition in the offsets of a query."""
    return f"{log}/{partition}"


def read_offsets(name: str, text: str) -> Bound:
    """Return the value of an option that takes offsets.

    Errors: `ConfigError` naming the option, the value and what is allowed.
    """
    word = _WORDS.get(text.lower())
    return word if word is not None else _read_json(name, text, OFFSETS, _offset)


def read_times(name: str, text: str) -> Bound:
    """Return the value of an option that takes times.

    Errors: `ConfigError` naming the option, the value and what is allowed.
    """
    at = _time(int(text) if re.fullmatch(r"[0-9]{1,15}", text) else text)
    return at if at is not None else _read_json(name, text, TIMES, _time)


def _offset(value: object) -> Place | None:
    if isinstance(value, bool):
        return None
    word = _WORDS.get(value) if isinstance(value, str | int) else None
    if word is not None:
        return word
    return value if isinstance(value, int) and 0 <= value < _MOST else None


def _time(value: object) -> datetime | None:
    try:
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return datetime.fromtimestamp(value / 1000, UTC)
        if isinstance(value, str):
            at = datetime.fromisoformat(value)
            return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


def _read_json(name: str, text: str, allowed: str, read: Callable[[object], Place | None]) -> Mapping[str, Place]:
    refused = ConfigError(f"option {name}={text!r}: must be {allowed}")
    try:
        given: Any = json.loads(text, object_pairs_hook=_without_repeats)
    except _Repeated as error:
        msg = f"option {name}={text!r}: {error.args[0]!r} is in it twice"
        raise ConfigError(msg) from None
    except ValueError:
        raise refused from None
    if not isinstance(given, dict) or not given:
        raise refused
    places: dict[str, Place] = {}
    for log, partitions in given.items():
        if not isinstance(partitions, dict) or not partitions:
            raise refused
        for partition, value in partitions.items():
            place = read(value)
            if place is None or not re.fullmatch(r"0|[1-9][0-9]{0,4}", partition):
                msg = f"option {name}: {json.dumps({log: {partition: value}})} in it: must be {allowed}"
                raise ConfigError(msg)
            places[key_of(log, int(partition))] = place
    return places


class _Repeated(Exception):
    """JSON has a key twice; the argument is the key."""


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _Repeated(next(key for key in keys if keys.count(key) > 1))
    return made
