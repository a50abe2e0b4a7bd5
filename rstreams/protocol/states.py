"""The states of a link, and the table of events that may happen in each.

    TRANSITIONS[state][event] is the next state. An event that is not in a state's row breaks the protocol. If this
    side was about to send it, it is a `LocalProtocolError`; if the peer sent it, it is a `RemoteProtocolError`.

The table also has frames that a peer may legally send late: frames that crossed our detach on the wire are received and
ignored in DETACH_SENT (AMQP 1.0 section 2.6.6).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import Final


class State(Enum):
    """The state of a link, seen from this side."""

    __hash__ = object.__hash__  # members are compared by identity; that of Enum is a function in Python

    UNATTACHED = auto()
    ATTACH_SENT = auto()
    ATTACH_RECEIVED = auto()
    ATTACHED = auto()
    REFUSED = auto()
    """The peer's reply had a null terminus: grant no credit, and wait for its detach."""
    REFUSING = auto()
    """We replied with a null terminus: our detach with the reason is next."""
    DETACH_SENT = auto()
    DETACH_RECEIVED = auto()
    DETACHED = auto()


class LinkEvent(Enum):
    """An event of a link: a performative sent or received, or the loss of its session or connection."""

    __hash__ = object.__hash__

    SEND_ATTACH = auto()
    SEND_REFUSAL = auto()
    SEND_FLOW = auto()
    SEND_TRANSFER = auto()
    SEND_DISPOSITION = auto()
    SEND_DETACH = auto()
    RECEIVE_ATTACH = auto()
    RECEIVE_REFUSAL = auto()
    RECEIVE_FLOW = auto()
    RECEIVE_TRANSFER = auto()
    RECEIVE_DISPOSITION = auto()
    RECEIVE_DETACH = auto()
    LOSE = auto()


_Row = dict[LinkEvent, State]


def _stay(state: State, *events: LinkEvent) -> _Row:
    return dict.fromkeys(events, state)


TRANSITIONS: Final[Mapping[State, Mapping[LinkEvent, State]]] = MappingProxyType(
    {
        State.UNATTACHED: {
            LinkEvent.SEND_ATTACH: State.ATTACH_SENT,
            LinkEvent.RECEIVE_ATTACH: State.ATTACH_RECEIVED,
            LinkEvent.LOSE: State.DETACHED,
        },
        State.ATTACH_SENT: {
            LinkEvent.RECEIVE_ATTACH: State.ATTACHED,
            LinkEvent.RECEIVE_REFUSAL: State.REFUSED,
            LinkEvent.RECEIVE_DETACH: State.DETACH_RECEIVED,
            LinkEvent.SEND_DETACH: State.DETACH_SENT,
            LinkEvent.LOSE: State.DETACHED,
        },
        State.ATTACH_RECEIVED: {
            # A receiver may send credit directly after its attach; the engine keeps it until our reply.
            **_stay(State.ATTACH_RECEIVED, LinkEvent.RECEIVE_FLOW),
            LinkEvent.SEND_ATTACH: State.ATTACHED,
            LinkEvent.SEND_REFUSAL: State.REFUSING,
            LinkEvent.RECEIVE_DETACH: State.DETACH_RECEIVED,
            LinkEvent.LOSE: State.DETACHED,
        },
        State.ATTACHED: {
            **_stay(
                State.ATTACHED,
                LinkEvent.SEND_FLOW,
                LinkEvent.SEND_TRANSFER,
                LinkEvent.SEND_DISPOSITION,
                LinkEvent.RECEIVE_FLOW,
                LinkEvent.RECEIVE_TRANSFER,
                LinkEvent.RECEIVE_DISPOSITION,
            ),
            LinkEvent.SEND_DETACH: State.DETACH_SENT,
            LinkEvent.RECEIVE_DETACH: State.DETACH_RECEIVED,
            LinkEvent.LOSE: State.DETACHED,
        },
        State.REFUSED: {
            **_stay(State.REFUSED, LinkEvent.RECEIVE_FLOW),
            LinkEvent.RECEIVE_DETACH: State.DETACH_RECEIVED,
            LinkEvent.SEND_DETACH: State.DETACH_SENT,
            LinkEvent.LOSE: State.DETACHED,
        },
        State.REFUSING: {
            **_stay(State.REFUSING, LinkEvent.RECEIVE_FLOW, LinkEvent.RECEIVE_TRANSFER),
            LinkEvent.SEND_DETACH: State.DETACH_SENT,
            LinkEvent.RECEIVE_DETACH: State.DETACH_RECEIVED,
            LinkEvent.LOSE: State.DETACHED,
        },
        State.DETACH_SENT: {
            **_stay(
                State.DETACH_SENT,
                LinkEvent.RECEIVE_ATTACH,
                LinkEvent.RECEIVE_REFUSAL,
                LinkEvent.RECEIVE_FLOW,
                LinkEvent.RECEIVE_TRANSFER,
                LinkEvent.RECEIVE_DISPOSITION,
            ),
            LinkEvent.RECEIVE_DETACH: State.DETACHED,
            LinkEvent.LOSE: State.DETACHED,
        },
        State.DETACH_RECEIVED: {
            # The end may wait: held items are settled before our own detach. The peer may settle what it still has.
            **_stay(State.DETACH_RECEIVED, LinkEvent.SEND_DISPOSITION, LinkEvent.RECEIVE_DISPOSITION),
            LinkEvent.SEND_DETACH: State.DETACHED,
            LinkEvent.LOSE: State.DETACHED,
        },
        State.DETACHED: {LinkEvent.LOSE: State.DETACHED},
    }
)
