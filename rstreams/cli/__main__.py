"""The command `rstreams`: finds the subcommand, and turns an error into one line and an exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from rstreams import __version__
from rstreams.cli.commands import COMMANDS, module_of
from rstreams.cli.completion import ASKED, answer
from rstreams.cli.exit_codes import CommandEnded, ExitCode
from rstreams.cli.parser import Parser

_EPILOG = """\
exit codes: 0 done, 1 not all accepted or found, 2 a mistake in the arguments, 3 the peer refused, 4 the peer is not
reachable, 130 Ctrl-C. `rstreams COMMAND --help` has examples.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: The arguments, without the program's name; those of the process by default.

    Returns:
        The exit code, as in `ExitCode`. The command `node` ends with 1 when something failed. An error is one line on
        stderr, without a traceback.
    """
    words = sys.argv[1:] if argv is None else argv
    if words[:1] == [ASKED]:
        return answer(words[1:], root_parser)
    try:
        arguments = _parsed(words)
    except SystemExit as stop:  # argparse has printed the reason: --help, --version, or a mistake
        _flush()
        return stop.code if isinstance(stop.code, int) else ExitCode.MISTAKE
    try:
        return arguments.run(arguments) or ExitCode.DONE
    except CommandEnded as end:
        return _say(arguments.command, end, end.code)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except Exception as error:
        return _failed(arguments.command, error)
    finally:
        _flush()


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    parser, commands = root_parser(words)
    arguments, unknown = parser.parse_known_args(words)
    if unknown:  # argparse would show the usage without the command's options
        commands.choices[arguments.command].error(f"unrecognized arguments: {' '.join(unknown)}")
    return arguments


def root_parser(words: Sequence[str]) -> tuple[Parser, argparse._SubParsersAction[Parser]]:
    """Return the parser for these words, and its commands; only the command that they name has its options."""
    parser = Parser(
        prog="rstreams",
        description="Reactive Streams whose signals are AMQP 1.0 link frames: run a node, and use any AMQP 1.0 peer.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"rstreams {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    named = next((word for word in words if not word.startswith("-")), None)
    for name, (_, what) in COMMANDS.items():
        command = commands.add_parser(name, help=what, allow_abbrev=False)
        if name == named:
            module_of(name).add_options(command)
    return parser, commands


def _failed(command: str, error: Exception) -> int:
    """Say what went wrong; an error that is not ours is raised again."""
    from rstreams.errors import ConfigError, RStreamsError, StoreError

    if isinstance(error, ConfigError | StoreError):
        return _say(command, error, ExitCode.MISTAKE)
    if isinstance(error, RStreamsError | OSError):
        return _say(command, error, ExitCode.NOT_ALL)
    raise error


def _say(command: str, error: Exception, code: int) -> int:
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    print(f"rstreams {command}: {' '.join(text.split())}", file=sys.stderr)
    return code


def _flush() -> None:
    """Write what waits; if the reader of the pipe has gone, let Python not complain about it at its end."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):  # a closed terminal, or no standard output at all
        pass


if __name__ == "__main__":
    sys.exit(main())
