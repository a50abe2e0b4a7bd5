"""What an error of the library means for a command: its exit code, and one line with what to try."""

from __future__ import annotations

from rstreams.cli.exit_codes import CommandEnded, ExitCode
from rstreams.errors import (
    AuthenticationFailed,
    Condition,
    ConfigError,
    ConnectFailed,
    PeerClosed,
    ProtocolError,
    RStreamsError,
    TransportError,
)
from rstreams.net.management import ManagementRefused


def ending_of(error: BaseException, place: str) -> CommandEnded:
    """Return how a command ends that met this error.

    Args:
        error: The error.
        place: The url of the peer, without credentials.
    """
    if isinstance(error, CommandEnded):
        return error
    if isinstance(error, ConfigError):
        return CommandEnded(ExitCode.MISTAKE, str(error))
    if isinstance(error, BaseExceptionGroup):
        return ending_of(error.exceptions[0], place)
    if isinstance(error, OSError):
        what = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
        return CommandEnded(ExitCode.MISTAKE, what)
    if isinstance(error, RStreamsError):
        return _of_peer(error, place)
    msg = f"this is a defect of rstreams, please report it: {type(error).__name__}: {error}"
    return CommandEnded(ExitCode.DEFECT, msg)


def _of_peer(error: RStreamsError, place: str) -> CommandEnded:
    code, hint = ExitCode.NOT_ALL, ""
    if isinstance(error, AuthenticationFailed):
        code, hint = ExitCode.REFUSED, "give --user and --password-file, or another --context"
    elif isinstance(error, ConnectFailed):
        code = ExitCode.UNREACHABLE
        hint = f"is a node or a broker with AMQP 1.0 at {place}? Otherwise give --url, or another --context"
    elif isinstance(error, TransportError):
        code, hint = ExitCode.UNREACHABLE, "try again, or give a longer --timeout"
    elif _is_missing(error):
        hint = "rstreams ls lists the addresses, where the peer can"
    elif isinstance(error, PeerClosed) and error.condition == Condition.UNAUTHORIZED_ACCESS:
        code, hint = ExitCode.REFUSED, "give another --user, or ask for a permission"
    elif isinstance(error, PeerClosed | ProtocolError | ManagementRefused):
        code = ExitCode.REFUSED
    return CommandEnded(code, f"{error}; {hint}" if hint else str(error))


def _is_missing(error: RStreamsError) -> bool:
    """Tell whether the peer says that there is no such thing."""
    return getattr(error, "condition", None) == Condition.NOT_FOUND or getattr(error, "status", None) == 404
