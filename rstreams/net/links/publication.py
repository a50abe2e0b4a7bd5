"""The beginning of `Connection.publish` and `Connection.sender`, and the result of publishing."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any

import trio

from rstreams import _machine, operators
from rstreams._checks.publishers import hint_for, is_publisher
from rstreams._events.table import CALLBACK_RAISED
from rstreams._published import PublishResult, RefusedItem
from rstreams._stages.stage import Lifted
from rstreams.abc import Publisher
from rstreams.errors import ConfigError, DeliveryFailed, PeerClosed, RStreamsError, TransportError
from rstreams.message import as_is
from rstreams.net.links.bodies import open_body
from rstreams.net.links.connection_links import Links, Sending
from rstreams.net.links.effectively_once import EFFECTIVELY_ONCE, Stamper
from rstreams.net.links.encoding import Encoding
from rstreams.net.links.stamping import StampingStage
from rstreams.protocol.options import SendingOptions
from rstreams.protocol.outgoing_body import streaming
from rstreams.protocol.sender import LinkSubscriber


def stamper_for(settlement: str, producer_id: str | None, first_sequence: int) -> Stamper | None:
    """Return the stamper of messages that are sent with `settlement`; None if they have no stamps.

    Errors: `ConfigError` for an id or a number that is not allowed, or that goes with another settlement.
    """
    if settlement == EFFECTIVELY_ONCE:
        return Stamper(_machine.fresh_uuid().hex if producer_id is None else producer_id, first_sequence)
    if producer_id is not None or first_sequence != 0:
        allowed = "settlement='effectively_once'"
        msg = f"producer_id and first_sequence are allowed only with {allowed}, not with {settlement!r}"
        raise ConfigError(msg)
    return None


class Publication:
    """One call of `publish`."""

    def __init__(
        self,
        links: Links,
        address: str | None,
        encode: Callable[[Any], object] | None,
        options: SendingOptions,
        *,
        traced: bool,
    ) -> None:
        """Publish to `address`.

        Args:
            links: Those of the connection.
            address: As for `publish`.
            encode: As for `publish`.
            options: Those of the link, whose `encode` makes the messages.
            traced: Whether the messages may get the context of a trace.
        """
        self._links = links
        self._address = address
        self._encode = encode
        self._options = options
        self._tracing = links.tracing if traced else None

    async def of(
        self,
        items: Publisher[Any],
        capabilities: tuple[str, ...],
        stamper: Stamper | None,
        on_end: Callable[[PublishResult], object] | None,
    ) -> PublishResult:
        """Send `items`, and wait until they are settled.

        Errors: `ConfigError` unless they are a publisher; the others as `publish`.
        """
        call, options, traces = f"publish({self._address!r})", self._options, None
        if not is_publisher(items):
            msg = f"{call}: items must be a Stream or another Publisher, not {type(items).__name__}{hint_for(items)}"
            raise ConfigError(msg)
        encoding = None if self._encode is None else Encoding(self._encode)
        if self._tracing is not None:
            traces = self._tracing.sending(self._address, settled=options.settled)
            message_of = traces.stamping(options.encode)
            encoding = Encoding(self._encoder(message_of, streams=stamper is None), makes_messages=True)
            all_of = traces.stamping_all(options.encode) if self._encode is None else None
            items = Lifted(items, partial(StampingStage, stamp=encoding.__call__, stamp_all=all_of))
            options = replace(options, encode=as_is)
        elif encoding is not None:
            items = operators.map(items, encoding.__call__)
        sending = self._links.send(
            call, self._address, items, options, capabilities=capabilities, stamper=stamper, traces=traces
        )
        return await end_of(call, sending, encoding, on_end)

    def _encoder(self, message_of: Callable[[Any], bytes], *, streams: bool) -> Callable[[Any], bytes]:
        """Return the function that makes a message of an item; `streams`: its body may be sent while it comes."""
        encode = self._encode
        if streams:
            message_of = streaming(message_of, open_body)
        return message_of if encode is None else lambda item: message_of(encode(item))


async def end_of(
    call: str, sending: Sending, encoding: Encoding | None, on_end: Callable[[PublishResult], object] | None
) -> PublishResult:
    """Wait until a stream is published, and return what became of its items.

    Args:
        call: The user's call, for messages.
        sending: The link.
        encoding: Encodes the items, if the user has a function for that.
        on_end: Called with the result, however the link ends.

    Errors: The error that ended it. If it is one of this library, it has the result as `published`.
    Cancels: The source is cancelled, and the link detached.
    """
    end = sending.end
    try:
        await sending.finished.wait()
    except trio.Cancelled:
        end.abort()
        _tell(on_end, _result(end, encoding, complete=False), call)
        raise
    error = sending.error
    result = _result(end, encoding, complete=error is None and not end.left)
    _tell(on_end, result, call)
    if error is None:
        return result
    error = naming_the_item(call, end, error, encoding)
    if isinstance(error, TransportError | PeerClosed):  # of this link, or of one that a shared source reads from
        error = copy(error).with_traceback(error.__traceback__)
    if isinstance(error, RStreamsError):
        error.published = result
        error.outcome_unknown = result.unknown
    if isinstance(error, DeliveryFailed):
        error.accepted = result.accepted
    raise error


def _result(end: LinkSubscriber[Any], encoding: Encoding | None, *, complete: bool) -> PublishResult:
    refused = {number: RefusedItem(why.kind, why.condition, why.description) for number, why in end.refused.items()}
    not_sent = end.unsent + (encoding is not None and encoding.error is not None)
    return PublishResult(end.accepted, refused, end.outcome_unknown + end.unsettled, not_sent, complete)


def _tell(on_end: Callable[[PublishResult], object] | None, result: PublishResult, call: str) -> None:
    if on_end is None:
        return
    try:
        on_end(result)
    except Exception as error:  # it is the user's function, and the end is what it is
        callback = f"on_end of {call}"
        CALLBACK_RAISED.tell(callback, raised=error, callback=callback)


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
