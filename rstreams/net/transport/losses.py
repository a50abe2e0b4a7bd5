"""The errors with which a connection ends that neither side has closed."""

from __future__ import annotations

from rstreams.errors import (
    AuthenticationFailed,
    Condition,
    ConnectFailed,
    ConnectionLost,
    IdleTimeout,
    RStreamsError,
)


def failure(peer: str, condition: str, description: str, *, was_open: bool, silence: IdleTimeout) -> RStreamsError:
    """Return the error for a connection that the engine has given up.

    Args:
        peer: The host and port of the peer.
        condition: The engine's condition.
        description: The engine's text.
        was_open: Whether the peer had opened the connection.
        silence: The error for a peer that was silent for too long.
    """
    if condition == Condition.UNAUTHORIZED_ACCESS:
        return AuthenticationFailed(f"{peer} refused the credentials ({description})")
    if condition == Condition.RESOURCE_LIMIT_EXCEEDED:
        return silence
    if was_open:
        return ConnectionLost(f"the connection to {peer} broke ({description})")
    return ConnectFailed(f"{peer} does not speak AMQP 1.0, or hung up ({description})")


def end(peer: str, *, was_open: bool, from_here: bool) -> RStreamsError:
    """Return the error of a connection that ended without one: closed from this side, or the peer hung up."""
    if from_here:
        return ConnectionLost(f"the connection to {peer} was closed from this side")
    if was_open:
        return ConnectionLost(f"{peer} hung up")
    return ConnectFailed(f"{peer} hung up before the connection was open")


def silence(peer: str, idle_timeout_s: float) -> IdleTimeout:
    """Return the error for a peer of which nothing has come for longer than the idle time-out."""
    text = f"{peer} was silent for longer than idle_timeout_s={idle_timeout_s:g}"
    return IdleTimeout(f"{text}; or this program's event loop stood still, as it does while a function in it blocks")
