"""The states of a link and the table of what may happen in each.

    TRANSITIONS[state][event] is the next state; an event that is not in a state's row breaks the protocol: if it was
    to be sent, here (`LocalProtocolError`); if it was received, there (`RemoteProtocolError`).

What a peer may legally send late is in the table: frames that crossed our detach on the wire are received, and
ignored, in DETACH_SENT (AMQP 1.0 section 2.6.6).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import Final


class State(Enum):
    """What a link is, seen from this side."""

    __hash__ = object.__hash__  # members are compared by identity; that of Enum is a function in Python

    UNATTACHED = auto()
    ATTACH_SENT = auto()
    ATTACH_RECEIVED = auto()
    ATTACHED = auto()
    REFUSED = auto()
    """The peer's reply had a null terminus: grant nothing, wait for its detach."""
    REFUSING = auto()
    """We replied with a null terminus: our detach with the reason is next."""
    DETACH_SENT = auto()
    DETACH_RECEIVED = auto()
    DETACHED = auto()


class Event(Enum):
    """What can happen to a link: a performative sent or received, or the loss of what carries it."""

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


_Row = dict[Event, State]


def _stay(state: State, *events: Event) -> _Row:
    return dict.fromkeys(events, state)


TRANSITIONS: Final[Mapping[State, Mapping[Event, State]]] = MappingProxyType(
    {
        State.UNATTACHED: {
            Event.SEND_ATTACH: State.ATTACH_SENT,
            Event.RECEIVE_ATTACH: State.ATTACH_RECEIVED,
            Event.LOSE: State.DETACHED,
        },
        State.ATTACH_SENT: {
            Event.RECEIVE_ATTACH: State.ATTACHED,
            Event.RECEIVE_REFUSAL: State.REFUSED,
            Event.RECEIVE_DETACH: State.DETACH_RECEIVED,
            Event.SEND_DETACH: State.DETACH_SENT,
            Event.LOSE: State.DETACHED,
        },
        State.ATTACH_RECEIVED: {
            # A receiver may pipeline credit behind its attach; the engine keeps it until our reply.
            **_stay(State.ATTACH_RECEIVED, Event.RECEIVE_FLOW),
            Event.SEND_ATTACH: State.ATTACHED,
            Event.SEND_REFUSAL: State.REFUSING,
            Event.RECEIVE_DETACH: State.DETACH_RECEIVED,
            Event.LOSE: State.DETACHED,
        },
        State.ATTACHED: {
            **_stay(
                State.ATTACHED,
                Event.SEND_FLOW,
                Event.SEND_TRANSFER,
                Event.SEND_DISPOSITION,
                Event.RECEIVE_FLOW,
                Event.RECEIVE_TRANSFER,
                Event.RECEIVE_DISPOSITION,
            ),
            Event.SEND_DETACH: State.DETACH_SENT,
            Event.RECEIVE_DETACH: State.DETACH_RECEIVED,
            Event.LOSE: State.DETACHED,
        },
        State.REFUSED: {
            **_stay(State.REFUSED, Event.RECEIVE_FLOW),
            Event.RECEIVE_DETACH: State.DETACH_RECEIVED,
            Event.SEND_DETACH: State.DETACH_SENT,
            Event.LOSE: State.DETACHED,
        },
        State.REFUSING: {
            **_stay(State.REFUSING, Event.RECEIVE_FLOW, Event.RECEIVE_TRANSFER),
            Event.SEND_DETACH: State.DETACH_SENT,
            Event.RECEIVE_DETACH: State.DETACH_RECEIVED,
            Event.LOSE: State.DETACHED,
        },
        State.DETACH_SENT: {
            **_stay(
                State.DETACH_SENT,
                Event.RECEIVE_ATTACH,
                Event.RECEIVE_REFUSAL,
                Event.RECEIVE_FLOW,
                Event.RECEIVE_TRANSFER,
                Event.RECEIVE_DISPOSITION,
            ),
            Event.RECEIVE_DETACH: State.DETACHED,
            Event.LOSE: State.DETACHED,
        },
        State.DETACH_RECEIVED: {
            # The end may wait: what is still held is settled before our own detach.
            **_stay(State.DETACH_RECEIVED, Event.SEND_DISPOSITION),
            Event.SEND_DETACH: State.DETACHED,
            Event.LOSE: State.DETACHED,
        },
        State.DETACHED: {Event.LOSE: State.DETACHED},
    }
)
