"""The sections of a message, see `sections_in_python`; their starts are found in C."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rstreams._codec.decode import FUNCTIONS
from rstreams._codec.sections_in_python import (
    APPLICATION_PROPERTIES,
    DATA,
    FOOTER,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    SEQUENCE,
    START,
    VALUE,
)

__all__ = [
    "APPLICATION_PROPERTIES",
    "DATA",
    "FOOTER",
    "HEADER",
    "MESSAGE_ANNOTATIONS",
    "PROPERTIES",
    "SEQUENCE",
    "START",
    "VALUE",
    "read_section",
]

read_section: Final[Callable[..., tuple[int, int]]] = FUNCTIONS.read_section
