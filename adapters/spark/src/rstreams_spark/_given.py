"""The options that Spark gave, and the ways to read one.

Spark gives every option as a string, with its name in lower case.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from rstreams.errors import ConfigError

V = TypeVar("V")
W = TypeVar("W")

_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_UNITS_BYTES: Final = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_FLAGS: Final = {"true": True, "false": False}

_OPTION_OF_TABLE: Final = "option."
_OF_A_TABLE: Final = (
    ". Spark hands the OPTIONS of a table to no source that is written in Python: use CREATE TEMPORARY VIEW ... USING "
    "rstreams OPTIONS (...), or name the options beside the table, with WITH (...) or .option(...)"
)


@dataclass(frozen=True)
class Secret:
    """A password or another secret, or the file or environment variable that holds it.

    Only one of the three is given. A file or a variable is read when a connection is opened.
    """

    name: str
    value: str | None = field(default=None, repr=False)
    file: str | None = None
    variable: str | None = None

    def read(self) -> str:
        """Return the secret.

        Errors: `ConfigError` that names the option if the file cannot be read or the variable is not set.
        """
        if self.file is not None:
            try:
                return Path(self.file).read_text("utf-8").rstrip("\r\n")
            except (OSError, UnicodeDecodeError) as error:
                why = getattr(error, "strerror", None) or "it is not UTF-8"
                msg = f"option {self.name}File={self.file!r}: the file cannot be read: {why}"
                raise ConfigError(msg) from None
        if self.variable is not None:
            value = os.environ.get(self.variable)
            if value is None:
                msg = f"option {self.name}Env={self.variable!r}: the environment has no such variable"
                raise ConfigError(msg)
            return value
        return self.value or ""

    def without_value(self) -> Secret:
        """Return the same without the password itself, for a copy that opens no connection."""
        return Secret(self.name, None, self.file, self.variable)


class Given:
    """The options of one source or sink.

    A wrong option is noted, and its default is returned in its place. `check` then raises one error that names all
    wrong options.

    Args:
        options: The options that Spark gave.
        what: "source" or "sink", for messages.
        known: The names of all options that it takes.
        elsewhere: The names of options of other connectors, with the reason or the name that is right here.
        ignored: Names in lower case that Spark adds by itself.
    """

    def __init__(
        self,
        options: Mapping[str, str],
        what: str,
        known: Iterable[str],
        *,
        elsewhere: Mapping[str, str],
        ignored: Iterable[str] = (),
    ) -> None:
        self._options = _handed_in(options)
        self._what = what
        self._hint = "" if self._options.keys() - set(ignored) else _OF_A_TABLE
        self._wrong: list[str] = []
        spelled = {name.lower(): name for name in known}
        for name in sorted(self._options.keys() - spelled.keys() - set(ignored)):
            self._refuse_unknown(name, spelled, elsewhere)

    def _refuse_unknown(self, name: str, spelled: Mapping[str, str], elsewhere: Mapping[str, str]) -> None:
        near = difflib.get_close_matches(name, spelled, 1)
        text = f"the rstreams {self._what} has no option {name}"
        if name in elsewhere:
            self.refuse(f"{text}: {elsewhere[name]}")
        elif near:
            self.refuse(f"{text}. Did you mean {spelled[near[0]]}?")
        else:
            self.refuse(f"{text}; it takes {', '.join(spelled.values())}")

    def refuse(self, text: str) -> None:
        """Note an option that is wrong; the same text counts once."""
        if text not in self._wrong:
            self._wrong.append(text)

    def attempt(self, read: Callable[[], V], otherwise: W) -> V | W:
        """Return what `read` returns; if it raises `ConfigError`, note the error and return `otherwise`."""
        try:
            return read()
        except ConfigError as error:
            self.refuse(str(error))
            return otherwise

    def check(self) -> None:
        """Raise one error for all wrong options, if there are any.

        Errors: `ConfigError` that names each wrong option, its value and the allowed values, in one line.
        """
        if len(self._wrong) == 1:
            raise ConfigError(self._wrong[0] + self._hint)
        if self._wrong:
            listed = "; ".join(f"({number}) {text}" for number, text in enumerate(self._wrong, 1))
            msg = f"{len(self._wrong)} things are wrong with the options of the rstreams {self._what}: {listed}"
            raise ConfigError(msg + self._hint)

    def has(self, name: str) -> bool:
        """Return whether an option is given."""
        return name.lower() in self._options

    def required(self, name: str, allowed: str) -> str:
        """Return an option that must be given."""
        if not self.has(name):
            self.refuse(f"option {name} is missing: it must be {allowed}")
            return ""
        return self._nonempty(name, allowed)

    def optional(self, name: str, allowed: str) -> str | None:
        """Return an option, or None if it is not given."""
        return self._nonempty(name, allowed) or None if self.has(name) else None

    def whole(self, name: str, default: int, most: int) -> int:
        """Return a whole number from 1 to `most`."""

        def read(text: str) -> int | None:
            number = int(text) if re.fullmatch(r"[0-9]{1,10}", text) else 0
            return number if 1 <= number <= most else None

        return self._read(name, default, read, f"a whole number from 1 to {most}")

    def duration_s(self, name: str, default: float, *, most_h: int = 1) -> float:
        """Return a time in seconds."""

        def read(text: str) -> float | None:
            match = re.fullmatch(r"([0-9]{1,9}) *(ms|s|m|h)", text)
            seconds = int(match[1]) * _UNITS_S[match[2]] if match else None
            return seconds if seconds is not None and seconds <= most_h * 3600 else None

        return self._read(name, default, read, f"a whole number with a unit (ms, s, m or h), from 0ms to {most_h}h")

    def size_bytes(self, name: str, default: int, most: int) -> int:
        """Return a number of bytes."""

        def read(text: str) -> int | None:
            match = re.fullmatch(r"([0-9]{1,15})([kmg]?)b?", text.lower())
            size = int(match[1]) * _UNITS_BYTES[match[2]] if match else 0
            return size if 1 <= size <= most else None

        return self._read(name, default, read, f"a number of bytes, such as 65536, 512k, 64m or 1g, from 1 to {most}")

    def flag(self, name: str, *, default: bool) -> bool:
        """Return true or false."""
        return self.one_of(name, _FLAGS, default)

    def one_of(self, name: str, choices: Mapping[str, V], default: V) -> V:
        """Return what an option's value stands for; the choices are in small letters."""
        return self._read(name, default, lambda text: choices.get(text.lower()), " or ".join(choices))

    def secret(self, name: str) -> Secret | None:
        """Return a secret that is given itself, by `nameFile` or by `nameEnv`; None if it is not given.

        The secret is not kept, but a file that cannot be read is an error now.
        """
        ways = [way for way in (name, f"{name}File", f"{name}Env") if self.has(way)]
        if not ways:
            return None
        if len(ways) > 1:
            self.refuse(f"options {' and '.join(ways)}: only one of them may be given")
            return Secret(name)
        secret = Secret(
            name,
            self._options.get(name.lower()),
            self.optional(f"{name}File", "a file that holds the secret"),
            self.optional(f"{name}Env", "the name of an environment variable that holds the secret"),
        )
        self.attempt(secret.read, "")
        return secret

    def _nonempty(self, name: str, allowed: str) -> str:
        return self._read(name, "", lambda text: text or None, allowed)

    def _read(self, name: str, default: V, read: Callable[[str], V | None], allowed: str) -> V:
        given = self._options.get(name.lower())
        if given is None:
            return default
        value = read(given.strip())
        if value is None:
            self.refuse(f"option {name}={given!r}: must be {allowed}")
            return default
        return value


def _handed_in(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options that a user has given, by their names in lower case.

    For `CREATE TABLE ... USING rstreams OPTIONS (...)` Spark gives the properties of the table: its owner, its
    provider, its comment and so on, and each option as `option.NAME`.
    """
    given = {name.lower(): value for name, value in options.items()}
    if given.get("provider", "").lower() != "rstreams":
        return given
    prefix = _OPTION_OF_TABLE
    return {name.removeprefix(prefix): value for name, value in given.items() if name.startswith(prefix)}
