"""An item that must be there: what first, last, element_at and single say if it is not."""

from __future__ import annotations

from typing import TypeVar

from rstreams.abc import Publisher
from rstreams.errors import NoItem
from rstreams.operators.switch_if_empty import switch_if_empty
from rstreams.sources.defer import defer
from rstreams.sources.fail import fail

T = TypeVar("T")


def required(source: Publisher[T], operator: str) -> Publisher[T]:
    """Fail with `NoItem`, naming the operator, if `source` completes without an item."""
    text = f"{operator}: the stream completed without such an item"
    return switch_if_empty(source, defer(lambda: fail(NoItem(text))))
