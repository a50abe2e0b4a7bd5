"""`encode`: the function by which a sender converts its items before they become messages; the reverse of `decode`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from rstreams import operators, sources
from rstreams._checks.functions import require_plain
from rstreams._checks.refusals import refuse_value
from rstreams._codec.forwarding import address_of
from rstreams._events.table import MESSAGE_NOT_ENCODED
from rstreams.abc import Publisher
from rstreams.errors import ConfigError, text_of
from rstreams.message import Message, as_is, encode_item
from rstreams.net.dialects import Dialect, kind_of

T = TypeVar("T")


class Encoding:
    """The function `encode` in one call that has this option; called with each item.

    Attributes:
        error: The exception that `encode` has raised. It stays at this side: its text may be a secret.
        count: How many items it has encoded.
    """

    def __init__(self, encode: Callable[[Any], object], *, makes_messages: bool = False) -> None:
        """Call `encode`; `makes_messages`: it also makes messages, and a `ConfigError` says which item it cannot."""
        self._encode = encode
        self._makes_messages = makes_messages
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
        text = f"encode raised {type(error).__name__}: {text_of(error)}"
        told = ConfigError(str(error) if self._makes_messages and isinstance(error, ConfigError) else text)
        told.__cause__ = error
        return told


def require_encode(call: str, encode: Callable[[Any], object] | None) -> None:
    """Check the option `encode`.

    Errors: `TypeError` unless it is None or a plain function.
    """
    if encode is not None:
        require_plain(call, "encode", encode, "use map_async before, and give a plain function here")


def message_encoder(
    call: str,
    encode: Callable[[Any], object] | None,
    dialect: Dialect,
    *,
    durable: bool | None,
    encoded: bool = False,
    addressed: bool = False,
) -> Callable[[Any], bytes]:
    """Return the function that makes an encoded message of an item, after `encode`.

    Args:
        call: The name of the user's call, for messages.
        encode: The option of that name.
        dialect: The dialect of the peer.
        durable: The option of that name; None: as the dialect says.
        encoded: Whether the items are encoded messages already.
        addressed: Whether each item must be a message with an address of its own.

    Errors: As `require_encode`; `ConfigError` for a `durable` that is not allowed, and for options that exclude each
        other.
    """
    require_encode(call, encode)
    if durable is not None and not isinstance(durable, bool):
        refuse_value(call, "durable", durable, "True, False or None")
    if encoded and (encode is not None or durable):
        other = "durable=True" if encode is None else "encode"
        msg = f"{call}: encoded=True: not allowed beside {other}, because the items are encoded already"
        raise ConfigError(msg)
    if encoded:
        return _encoded_with_address if addressed else as_is
    encode = encode_durable if (dialect.marks_durable if durable is None else durable) else encode_item
    return partial(_encode_with_address, dialect, encode) if addressed else encode


_NO_ADDRESS: Final = "address=None: each item must be a Message that names its address: Message(body, address='orders')"


def _encode_with_address(dialect: Dialect, encode: Callable[[Any], bytes], item: object) -> bytes:
    """Return the encoded message with its address in the peer's own form.

    Errors: `ConfigError` if it has none, or one that the peer does not have.
    """
    if not isinstance(item, Message) or not item.address:
        raise ConfigError(_NO_ADDRESS)
    address = item.address
    place = dialect.target(address)
    if place.capabilities and kind_of(address)[0] and kind_of(place.address)[0] is None:
        msg = f"address={address!r:.80}: a message cannot ask for this kind of address; write {place.address!r:.80}"
        raise ConfigError(msg)
    return encode(item if place.address == address else replace(item, address=place.address))


def _encoded_with_address(item: bytes) -> bytes:
    """Return an item that is an encoded message with an address, in the peer's own form.

    Errors: `ConfigError` if it is not.
    """
    encoded = as_is(item)
    if address_of(encoded) is None:
        raise ConfigError(_NO_ADDRESS)
    return encoded


def encode_durable(item: object) -> bytes:
    """Return the message that carries an item, marked as durable (3.2.1); errors as `encode_item`."""
    if isinstance(item, Message):
        return encode_item(item if item.durable is True else replace(item, durable=True))
    return _DURABLE + encode_item(item)


_DURABLE: Final = bytes((0x00, 0x53, 0x70, 0xC0, 0x02, 0x01, 0x41))
"""A header whose first field is true; a plain item has none of its own."""


def encoded_for(address: str, items: Publisher[T], encode: Callable[[T], object] | None) -> Publisher[Any]:
    """Return `items` as they are served at `address`: encoded for each subscription. A failure of that is logged."""
    if encode is None:
        return items

    def make() -> Publisher[Any]:
        encoding = Encoding(encode)

        def tell(error: BaseException) -> None:
            if error is encoding.error:
                why = encoding.told(error)
                MESSAGE_NOT_ENCODED.tell(address, raised=error, number=encoding.count, address=address, why=why)

        return operators.do_on_error(operators.map(items, encoding.__call__), tell)

    return sources.defer(make)
