"""`encode`: the function by which a sender converts its items before they become messages; the reverse of `decode`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from rstreams import operators, sources
from rstreams._checks.functions import require_plain
from rstreams.abc import Publisher
from rstreams.errors import ConfigError, text_of
from rstreams.message import as_is, encode_item

T = TypeVar("T")

logger = logging.getLogger("rstreams.net")


class Encoding:
    """The function `encode` in one call that has this option; called with each item.

    Attributes:
        error: The exception that `encode` has raised. It stays at this side: its text may be a secret.
        count: How many items it has encoded.
    """

    def __init__(self, encode: Callable[[Any], object]) -> None:
        self._encode = encode
        self.error: BaseException | None = None
        self.count = 0

    def __call__(self, item: Any) -> Any:  # noqa: ANN401 - an item, and its result
        """Return the result of `encode` for an item.

        Errors: Those of `encode`.
        """
        try:
            encoded = self._encode(item)
        except Exception as error:
            self.error = error
            raise
        self.count += 1
        return encoded

    def at_once(self, item: Any) -> Any:  # noqa: ANN401 - likewise
        """Return the result of `encode` for an item that does not come from a stream.

        Errors: `ConfigError` with the text of its error.
        """
        try:
            return self(item)
        except Exception as error:
            raise self.told(error) from error

    def told(self, error: BaseException) -> BaseException:
        """Return the error that the user gets for `error`: a `ConfigError` if `encode` has raised it."""
        if error is not self.error:
            return error
        self.error = None
        told = ConfigError(f"encode raised {type(error).__name__}: {text_of(error)}")
        told.__cause__ = error
        return told


def require_encode(call: str, encode: Callable[[Any], object] | None) -> None:
    """Check the option `encode`.

    Errors: `TypeError` unless it is None or a plain function.
    """
    if encode is not None:
        require_plain(call, "encode", encode, "use map_async before, and give a plain function here")


def message_encoder(call: str, encode: Callable[[Any], object] | None, *, encoded: bool) -> Callable[[Any], bytes]:
    """Return the function that makes an encoded message of an item, after `encode`.

    Args:
        call: The name of the user's call, for messages.
        encode: The option of that name.
        encoded: Whether the items are encoded messages already.

    Errors: As `require_encode`; `ConfigError` for both options.
    """
    require_encode(call, encode)
    if encoded and encode is not None:
        msg = f"{call}: encoded=True: not allowed beside encode, because the items are encoded already"
        raise ConfigError(msg)
    return as_is if encoded else encode_item


def encoded_for(address: str, items: Publisher[T], encode: Callable[[T], object] | None) -> Publisher[Any]:
    """Return `items` as they are served at `address`: encoded for each subscription. A failure of that is logged."""
    if encode is None:
        return items

    def make() -> Publisher[Any]:
        encoding = Encoding(encode)

        def tell(error: BaseException) -> None:
            if error is encoding.error:
                text = "item %d of a subscription to %r, counted from 0: %s"
                logger.error(text, encoding.count, address, encoding.told(error), exc_info=error)

        return operators.do_on_error(operators.map(items, encoding.__call__), tell)

    return sources.defer(make)
