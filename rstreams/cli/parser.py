"""The parser of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Container, Sequence


class Parser(argparse.ArgumentParser):
    """A parser that names an option that it does not know, also if commands may follow its options.

    argparse would take the value behind such an option for the command, and name the value.

    Attributes:
        commands: The names of the commands.
        mixes: Whether options may stand between the values of a list: `send orders --rate 5 tea milk`. argparse would
            take the list for empty, because the option comes before it.
    """

    commands: Container[str] = ()
    mixes: bool = False

    def parse_known_args(  # type: ignore[override] # argparse has overloads for namespaces of other classes
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse the arguments; those behind the name of a command are left to the parser of that command."""
        if self.mixes:
            self.mixes = False  # the method below calls this one, for the options alone
            try:
                return self.parse_known_intermixed_args(args, namespace or argparse.Namespace())
            finally:
                self.mixes = True
        for each in args or ():
            if each == "--" or each in self.commands:
                break
            is_option = each.startswith("--") and " " not in each  # argparse, too, takes text with a space for a value
            if self.commands and is_option and each.partition("=")[0] not in self._option_string_actions:
                self.error(f"unrecognized arguments: {each}")
        return super().parse_known_args(args, namespace or argparse.Namespace())
