"""Contexts: the settings of peers under short names, in one file that only its owner can read.

The file never holds a password: a context has the place of a password. It is replaced as a whole, so that a reader
never sees a part of it.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from rstreams.cli.exit_codes import mistake

VARIABLE: Final = "RSTREAMS_CONTEXT"
"""The environment variable with the name of the context to use."""


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """How to reach a peer; each field is an option of every command that talks to one, and None if it is not given.

    Attributes:
        url: The url, without a password.
        user: The user.
        password_file: The file whose first line is the password, or `env:VARIABLE`.
        tls_ca: The file with the certificates of the authorities to trust.
        tls_cert: The file with this side's certificate.
        tls_key: The file with its key.
        allow_plain_over_tcp: Whether the password may be sent without encryption to other machines.
        dialect: The peer's dialect.
    """

    url: str | None = None
    user: str | None = None
    password_file: str | None = None
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    allow_plain_over_tcp: bool | None = None
    dialect: str | None = None

    def given(self) -> dict[str, Any]:
        """Return the settings that are given."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def over(self, other: PeerSettings) -> PeerSettings:
        """Return these settings, and those of `other` where these are not given."""
        return PeerSettings(**{**other.given(), **self.given()})


_FIELDS: Final = {each.name: bool if each.name == "allow_plain_over_tcp" else str for each in fields(PeerSettings)}


@dataclass(slots=True)
class Contexts:
    """The contexts of a file.

    Attributes:
        named: The settings by the name of the context.
        selected: The name of the context that is used if no other is asked for; "" for none.
        previous: The one that was selected before; "" for none.
    """

    named: dict[str, PeerSettings] = field(default_factory=dict)
    selected: str = ""
    previous: str = ""

    def select(self, name: str) -> None:
        """Select a context.

        Errors: `CommandEnded` if there is none of this name.
        """
        self.settings(name)
        if name != self.selected:
            self.previous, self.selected = self.selected, name

    def remove(self, name: str) -> None:
        """Remove a context.

        Errors: `CommandEnded` if there is none of this name.
        """
        self.settings(name)
        del self.named[name]
        self.selected = "" if self.selected == name else self.selected
        self.previous = "" if self.previous == name else self.previous

    def settings(self, name: str) -> PeerSettings:
        """Return the settings of a context.

        Errors: `CommandEnded` if there is none of this name.
        """
        if name not in self.named:
            there = f"there are {', '.join(sorted(self.named))}" if self.named else "there is none yet"
            msg = f"there is no context {name!r}; {there} (rstreams context add NAME --url URL)"
            raise mistake(msg)
        return self.named[name]


def contexts_file() -> Path:
    """Return the place of the file: `rstreams/contexts.json` in XDG_CONFIG_HOME, or in ~/.config."""
    home = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(home) if home else Path.home() / ".config") / "rstreams" / "contexts.json"


def read_contexts() -> Contexts:
    """Read the file; if there is none, there are no contexts.

    Errors: `CommandEnded` if it cannot be read, or is not such a file.
    """
    path = contexts_file()
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Contexts()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        msg = f"the contexts cannot be read: {path}: {why}"
        raise mistake(msg) from error
    try:
        found = json.loads(text)
        named = {name: _settings(each) for name, each in found["contexts"].items()}
        return Contexts(named, str(found["selected"]), str(found["previous"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        msg = f"{path} is not a file of contexts; remove it, and add the contexts again"
        raise mistake(msg) from error


def _settings(found: Mapping[str, Any]) -> PeerSettings:
    for name, value in found.items():
        if not isinstance(value, _FIELDS[name]):
            raise TypeError(name)
    return PeerSettings(**found)


def write_contexts(contexts: Contexts) -> None:
    """Replace the file; only its owner can read it.

    Errors: `CommandEnded` if it cannot be written.
    """
    path = contexts_file()
    named = {name: settings.given() for name, settings in sorted(contexts.named.items())}
    found = {"selected": contexts.selected, "previous": contexts.previous, "contexts": named}
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(prefix=".contexts-", dir=path.parent)  # its mode is 0600
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(json.dumps(found, indent=2) + "\n")
            Path(unfinished).replace(path)
        except BaseException:
            Path(unfinished).unlink(missing_ok=True)
            raise
    except OSError as error:
        msg = f"the contexts cannot be written: {path}: {error.strerror}"
        raise mistake(msg) from error
