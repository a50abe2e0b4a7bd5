"""The commands: their names, their modules, and the line of help about each.

A module is imported when its command is named, and not before: `rstreams --help` loads none of them. Each has
`add_options(parser)`, which sets `run` to the function of the command; it returns the exit code, or None for 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final, Protocol, cast

from rstreams.cli.parser import Parser


class CommandModule(Protocol):
    """What the module of a command has."""

    def add_options(self, parser: Parser) -> None:
        """Describe the command to its parser."""


COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "node": ("node", "run a node, described by options or by a file"),
    "send": ("send", "send messages to an address, each with its outcome"),
    "recv": ("recv", "look at the messages of an address, or take them"),
    "ls": ("ls", "list the addresses of a node"),
    "info": ("info", "show what a peer is and does, or all about an address"),
    "context": ("context", "keep urls and users under short names"),
    "completion": ("completion", "print the script by which bash, zsh or fish completes words"),
}


def module_of(command: str) -> CommandModule:
    """Import the module of a command."""
    return cast("CommandModule", import_module(f"rstreams.cli.{COMMANDS[command][0]}"))
