"""The command `rstreams`: finds the subcommand, and turns an error into one line and an exit code."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from rstreams import RStreamsError, __version__
from rstreams.cli import node
from rstreams.cli.parser import Parser
from rstreams.errors import ConfigError, StoreError

COMMANDS: Final = (node,)
"""The modules of the subcommands: each has `add_to(commands)`, which sets `run` to the function of the command; it
returns the exit code, or None for 0."""

FAILED: Final = 1
MISUSED: Final = 2
INTERRUPTED: Final = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: The arguments, without the program's name; those of the process by default.

    Returns:
        The exit code: 0 when all went well, 1 when something failed, 2 for arguments that are not valid, or a config
        file or store that cannot be used, 130 for an interrupt. An error is one line on stderr, without a traceback.
    """
    try:
        arguments = _parsed(argv)
    except SystemExit as stop:  # argparse has printed the reason: --help, --version, or a mistake
        return stop.code if isinstance(stop.code, int) else MISUSED
    try:
        return arguments.run(arguments) or 0
    except (ConfigError, StoreError) as error:
        return _say(arguments.command, error, MISUSED)
    except (RStreamsError, OSError) as error:
        return _say(arguments.command, error, FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED


def _parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(
        prog="rstreams",
        description="Reactive Streams whose signals are AMQP 1.0 link frames.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"rstreams {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add_to(commands)
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:  # argparse would show the usage without the command's options
        commands.choices[arguments.command].error(f"unrecognized arguments: {' '.join(unknown)}")
    return arguments


def _say(command: str, error: Exception, code: int) -> int:
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    print(f"rstreams {command}: {' '.join(text.split())}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
