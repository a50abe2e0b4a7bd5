"""The errors with which a connection ends that neither side has closed."""

from __future__ import annotations

from typing import Final

from rstreams.errors import (
    AuthenticationFailed,
    Condition,
    ConnectFailed,
    ConnectionLost,
    IdleTimeout,
    RStreamsError,
)

_TROUBLE: Final = {
    2: ("sys", "it has an error of its own"),
    3: ("sys-perm", "it has an error of its own, which somebody must mend there"),
    4: ("sys-temp", "it has passing trouble, try again later"),
}


def failure(peer: str, condition: str, description: str, *, was_open: bool, silence: IdleTimeout) -> RStreamsError:
    """Return the error for a connection that the engine has given up.

    Args:
        peer: The host and port of the peer.
        condition: The engine's condition.
        description: The engine's text.
        was_open: Whether the peer had opened the connection.
        silence: The error for a peer that was silent for too long.
    """
    if condition == Condition.RESOURCE_LIMIT_EXCEEDED:
        return silence
    if was_open and "connection aborted" in description:
        return ConnectionLost(f"{peer} hung up")
    if was_open:
        return ConnectionLost(f"the connection to {peer} broke ({description})")
    return ConnectFailed(f"{peer} does not speak AMQP 1.0, or hung up ({description})")


def refusal(peer: str, description: str, outcome: int) -> RStreamsError:
    """Return the error for a peer with which SASL has failed.

    Args:
        peer: The host and port of the peer.
        description: The engine's text, with the mechanism.
        outcome: The code that the peer has sent; -1 for none.

    Spec: AMQP 5.3.3.6. Only "auth" is about the credentials; "sys-temp" is likely to pass, and is tried again as other
        failures to connect.
    """
    trouble = _TROUBLE.get(outcome)
    if trouble is None or "[mech=none]" in description:  # the engine's own code: the peer has not been asked
        return AuthenticationFailed(f"{peer} refused the credentials ({description})")
    name, what = trouble
    text = f"{peer} cannot check the credentials: {what} (SASL outcome {name}, {outcome})"
    return ConnectFailed(text) if name == "sys-temp" else AuthenticationFailed(text)


def end(peer: str, *, was_open: bool, from_here: bool) -> RStreamsError:
    """Return the error of a connection that ended without an error: closed from this side, or the peer hung up."""
    if from_here:
        return ConnectionLost(f"the connection to {peer} was closed from this side")
    if was_open:
        return ConnectionLost(f"{peer} hung up")
    return ConnectFailed(f"{peer} hung up before the connection was open")


def silence(peer: str, idle_timeout_s: float) -> IdleTimeout:
    """Return the error for a peer of which nothing has come for longer than the idle time-out."""
    text = f"{peer} was silent for longer than idle_timeout_s={idle_timeout_s:g}"
    return IdleTimeout(f"{text}; or this program's event loop stood still, as it does while a function in it blocks")
