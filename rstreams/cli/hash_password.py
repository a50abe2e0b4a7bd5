"""`rstreams node hash-password`: the hash of a password, for a config file. The password is never an argument."""

from __future__ import annotations

import argparse
import getpass
import sys

from rstreams.cli.parser import Parser
from rstreams.errors import ConfigError


def add_to(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "hash-password",
        help="print the hash of a password for a config file",
        description="Read a password from the terminal, or the first line of standard input, and print its hash "
        "(scrypt) for the table of a user in a config file.",
        allow_abbrev=False,
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:  # noqa: ARG001 - as every command
    """Print the hash.

    Errors: `ConfigError` if the password is empty, or typed differently the second time.
    """
    from rstreams.node import PasswordHash

    print(PasswordHash.of(_password()).text)


def _password() -> str:
    if not sys.stdin.isatty():
        try:
            return sys.stdin.readline().rstrip("\r\n")
        except UnicodeDecodeError:
            msg = "the password on standard input is not text"
            raise ConfigError(msg) from None
    password = getpass.getpass("password: ")
    if password and getpass.getpass("the same again: ") != password:
        msg = "the two passwords are not the same"
        raise ConfigError(msg)
    return password
