"""The exit codes of the commands, and the end of a command with one of them."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the exit code of a command says. `docs/guides/command-line.md` has the same table."""

    DONE = 0
    NOT_ALL = 1
    MISTAKE = 2
    REFUSED = 3
    UNREACHABLE = 4
    DEFECT = 70
    HUNG_UP = 129
    INTERRUPTED = 130
    TERMINATED = 143


class CommandEnded(Exception):
    """A command cannot go on; the text is the one line that says why, and what to try.

    Attributes:
        code: The exit code.
    """

    def __init__(self, code: ExitCode, text: str) -> None:
        """End with a code and a line."""
        super().__init__(text)
        self.code = code


def mistake(text: str) -> CommandEnded:
    """Return the end of a command that was asked for something that cannot be."""
    return CommandEnded(ExitCode.MISTAKE, text)
