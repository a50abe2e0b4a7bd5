"""Failure strategies: the options `on_failure` of `Connection.stream`, which decide about items that failed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal, TypeAlias, get_args

from rstreams._checks.argument_names import name_arguments
from rstreams._checks.names import require_name
from rstreams._core.claims import Claims
from rstreams._events.table import DEAD_LETTERS_NOT_SENT, MESSAGE_NOT_DECODED
from rstreams.errors import ConfigError, LinkDetached, RemoteProtocolError, RStreamsError, SessionEnded
from rstreams.message import encode_item
from rstreams.net.links.effectively_once import decode_unstamped
from rstreams.net.links.outlet import Outlet
from rstreams.protocol.delivery import (
    ACCEPTED,
    RELEASED,
    FailureStrategy,
    Forwarded,
    described,
    failed,
    outcome_of,
    reject,
)

FailureName: TypeAlias = Literal["fail", "modify", "release", "reject", "accept"]

FAILURE_TEXT: Final = "x-opt-rstreams-failure"
"""The annotation of a dead letter with the reason."""

FAILURE_ADDRESS: Final = "x-opt-rstreams-failed-at"
"""The annotation of a dead letter with the address that it came from."""


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The failure strategy that sends the message to another address, and accepts it when it has arrived there.

    The dead letter is the message with two more annotations: "x-opt-rstreams-failure", the error's type and text, and
    "x-opt-rstreams-failed-at", the address from which it came. If the dead letter cannot be sent, the message is given
    back as failed. If the peer refuses the link, because the address does not exist or is not allowed, the stream ends
    with that error.

    Attributes:
        address: The peer's name for the target of dead letters.

    Errors: `ConfigError` for an address that is not allowed.
    """

    address: str

    def __post_init__(self) -> None:
        require_name("DeadLetters", "address", self.address)


name_arguments("DeadLetters", DeadLetters)


def _strategies(*, expose: bool) -> Mapping[str, FailureStrategy]:
    return {
        "fail": FailureStrategy(partial(failed, expose=expose), ends=True),
        "modify": FailureStrategy(partial(failed, expose=expose)),
        "release": FailureStrategy(lambda _error: RELEASED),
        "reject": FailureStrategy(partial(reject, expose=expose)),
        "accept": FailureStrategy(lambda _error: ACCEPTED),
    }


_STRATEGIES: Final = {expose: _strategies(expose=expose) for expose in (False, True)}


def strategy_for(
    on_failure: FailureName | DeadLetters,
    address: str,
    dead_letters: Callable[[str], DeadLetterQueue],
    *,
    expose: bool = True,
) -> FailureStrategy:
    """Return the strategy for the option `on_failure` of a stream from `address`.

    Args:
        on_failure: The option.
        address: Where the stream comes from.
        dead_letters: Returns the one queue of dead letters to an address.
        expose: Whether the peer is told the text of an error, and not only its type.

    Errors: `ConfigError` for another value, and for dead letters to the address that the stream comes from.
    """
    if isinstance(on_failure, DeadLetters):
        place = on_failure.address
        if place == address:
            msg = f"on_failure={on_failure!r:.80}: failed messages would come back at once; it must be another address"
            raise ConfigError(msg)

        def forward(payload: bytes, error: BaseException, hold: Claims) -> None:
            letters = dead_letters(place)
            letters.put(dead_letter(payload, error, address, expose=expose, durable=letters.durable), hold)

        return FailureStrategy(outcome_of, forward=forward, on_undecodable=_FailureLog(address, on_failure).tell)
    strategy = _STRATEGIES[expose].get(on_failure) if isinstance(on_failure, str) else None
    if strategy is None:
        allowed = ", ".join(repr(name) for name in get_args(FailureName))
        msg = f"on_failure={on_failure!r:.80}: it must be {allowed} or DeadLetters(address)"
        raise ConfigError(msg)
    return strategy if strategy.ends else replace(strategy, on_undecodable=_FailureLog(address, on_failure).tell)


class _FailureLog:
    """Logs the items that a stream could not decode and goes on after."""

    def __init__(self, address: str, on_failure: FailureName | DeadLetters) -> None:
        self._address = address
        self._on_failure = on_failure
        self._failures = 0

    def tell(self, error: BaseException) -> None:
        self._failures += 1
        address, count = self._address, self._failures
        MESSAGE_NOT_DECODED.tell(address, raised=error, address=address, count=count, on_failure=self._on_failure)


def dead_letter(
    payload: bytes, error: BaseException, address: str, *, expose: bool = True, durable: bool = False
) -> bytes:
    """Return the message with its failure in its annotations; bytes that are not a message are returned as they are.

    If `durable`, the message is marked as durable: the failed message is accepted because this one is safe.
    """
    try:
        message = decode_unstamped(payload)
    except RemoteProtocolError:
        return payload
    text = described(error, expose=expose)
    noted = {**message.annotations, FAILURE_TEXT: text, FAILURE_ADDRESS: address}
    return encode_item(replace(message, annotations=noted, durable=message.durable or durable))


class DeadLetterQueue(Outlet):
    """Dead letters on their way to one address: a publisher whose items are the messages put in.

    It keeps no more messages than the windows of the streams whose failures it takes: a failed message stays unsettled
    in its stream until its dead letter has arrived.

    Args:
        address: Where they go, for messages.
        attach: Attaches a link for this publisher; it is called when there is a message and no link.
        durable: Whether they are to be marked as durable.
    """

    def __init__(self, address: str, attach: Callable[[DeadLetterQueue], object], *, durable: bool = False) -> None:
        super().__init__()
        self.durable = durable
        self._address = address
        self._attach = attach
        self._on_wait: Callable[[], None] | None = None

    def when_waiting(self, tell: Callable[[], None]) -> None:
        """Have `tell` called whenever a dead letter begins to wait."""
        self._on_wait = tell

    def put(self, encoded: bytes, hold: Claims) -> None:
        """Send a dead letter; `hold` is let go with its outcome."""
        was_open = self._is_open
        super().put(encoded, hold)
        if was_open and self._waiting and self._on_wait is not None:
            self._on_wait()

    def _open(self) -> None:
        try:
            self._attach(self)
        except RStreamsError as error:  # it has been drained, or the peer has no such address
            self.on_finished(error)

    def on_finished(self, error: BaseException | None) -> None:
        """Give back the messages that wait: the link has ended. The next message attaches another one.

        If the peer has refused the link, each waiting message ends its stream: the next one would be refused as well.
        """
        self._close()
        waiting, self._waiting = self._waiting, deque()
        reason = error or RStreamsError("the peer ended the link for dead letters")
        if waiting:
            count = f"{len(waiting)} dead letters" if len(waiting) > 1 else "a dead letter"
            DEAD_LETTERS_NOT_SENT.tell(self._address, letters=count, address=self._address, why=reason)
        refusal = self._refusal(reason)
        for _, hold in waiting:
            hold.fail(reason)
            if refusal is not None and isinstance(hold.source, Forwarded):
                hold.source.give_up(refusal)

    def _refusal(self, reason: BaseException) -> BaseException | None:
        """Return the error that ends a stream if `reason` refuses all dead letters; None if the next one may go."""
        what = f"on_failure=DeadLetters({self._address!r})"
        if isinstance(reason, LinkDetached | SessionEnded):
            text = f"{what}: {reason.description or 'the peer takes none'}"
            refusal = LinkDetached(reason.condition, text, reason.info)
            refusal.place = reason.place
            return refusal
        return ConfigError(f"{what}: {reason}") if isinstance(reason, ConfigError) else None
