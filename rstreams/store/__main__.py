"""The command for a damaged store: `python -m rstreams.store check|export|skip FOLDER`."""

from __future__ import annotations

import argparse
import base64
import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from rstreams.errors import StoreError
from rstreams.store.repair import check, export, skip

WHOLE: Final = 0
DAMAGED: Final = 1
MISUSED: Final = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: The arguments; those of the process by default.

    Returns:
        The exit code: 0 for a store that is whole, 1 for one that is damaged, 2 for one that cannot be used.
    """
    parser = argparse.ArgumentParser(prog="python -m rstreams.store", description="Find a way past a damaged store.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, what in (
        ("check", "print what is damaged"),
        ("export", "print all messages that are readable, each as a line of JSON"),
        ("skip", "print what is damaged, and go on without it; the old files are kept"),
    ):
        commands.add_parser(name, help=what).add_argument("folder", metavar="FOLDER", help="the folder of the store")
    arguments = parser.parse_args(argv)
    try:
        if arguments.command == "export":
            return _export(arguments.folder)
        damages = (check if arguments.command == "check" else skip)(arguments.folder)
    except StoreError as error:
        print(f"{parser.prog} {arguments.command}: {error}", file=sys.stderr)
        return MISUSED
    for damage in damages:
        print(damage)
    return DAMAGED if damages else WHOLE


def _export(folder: str) -> int:
    for saved in export(folder):
        print(json.dumps({**asdict(saved), "message": base64.b64encode(saved.message).decode()}))
    damages = check(folder)  # what is not readable at all has no line in the output
    for damage in damages:
        print(damage, file=sys.stderr)
    return DAMAGED if damages else WHOLE


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `... export FOLDER | head` ends without a traceback
    sys.exit(main())
