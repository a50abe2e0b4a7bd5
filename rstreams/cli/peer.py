"""The peer that a command talks to: by options, by a context, or the default; and its password, from where it is kept.

    --url, --user, ...                     win over everything
    --context NAME, or RSTREAMS_CONTEXT    a context
    rstreams context select NAME           the selected context
    none of them                           a peer of this machine, at amqp://127.0.0.1:5672

No password is ever an option: the process list and the history of the shell would show it.
"""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from rstreams.cli.contexts import VARIABLE, PeerSettings, read_contexts
from rstreams.cli.exit_codes import mistake

DEFAULT_URL: Final = "amqp://127.0.0.1:5672"
DEFAULT_TIMEOUT_S: Final = 10.0
_FAR_TOO_LONG: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class ChosenPeer:
    """A peer to connect to.

    Attributes:
        settings: How to reach it.
        place: Its url without credentials.
        password: The password of the user; None for none.
        context: The name of the context that it comes from; "" for none.
        timeout_s: Seconds until the connection must be open, and until the peer must have answered.
    """

    settings: PeerSettings
    place: str
    password: str | None = field(repr=False)
    context: str
    timeout_s: float

    def connect_options(self) -> dict[str, Any]:
        """Return the arguments for `rstreams.connect`.

        Errors: `CommandEnded` for a file of TLS that cannot be used.
        """
        settings = self.settings
        url = self.place
        if settings.user is not None:
            secret = "" if self.password is None else f":{quote(self.password, safe='')}"
            url = url.replace("//", f"//{quote(settings.user, safe='')}{secret}@", 1)
        options: dict[str, Any] = {
            "url": url,
            "connect_timeout_s": self.timeout_s,
            "answer_timeout_s": self.timeout_s,
            "allow_plain_over_tcp": bool(settings.allow_plain_over_tcp),
            "dialect": settings.dialect,
        }
        if settings.tls_ca or settings.tls_cert or settings.tls_key:
            options["tls"] = _tls_context(settings)
        return options


def _tls_context(settings: PeerSettings) -> object:
    from rstreams.errors import ConfigError
    from rstreams.tls import client_context

    if settings.tls_key and not settings.tls_cert:
        msg = f"--tls-key {settings.tls_key!r}: it needs a certificate; give --tls-cert"
        raise mistake(msg)
    try:
        return client_context(ca_file=settings.tls_ca, certificate=settings.tls_cert, key=settings.tls_key)
    except ConfigError as error:
        text = str(error)
        for name, option in (("ca_file", "--tls-ca"), ("certificate", "--tls-cert"), ("key", "--tls-key")):
            text = text.replace(f"{name}=", f"{option} ", 1)
        raise mistake(text) from error


def add_peer_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which peer, to a command that talks to one."""
    group = parser.add_argument_group("the peer")
    group.add_argument(
        "--context",
        metavar="NAME",
        help=f"use this context; see rstreams context (default: ${VARIABLE}, or the selected context)",
    )
    add_settings(group)
    group.add_argument(
        "--timeout",
        type=float,
        default=DEFAULT_TIMEOUT_S,
        metavar="SECONDS",
        help="until the peer must be connected, and until it must have answered (default: %(default)g)",
    )


def add_settings(group: argparse._ActionsContainer) -> None:
    """Add an option for each field of `PeerSettings`."""
    group.add_argument("--url", metavar="URL", help=f"amqp[s]://HOST[:PORT][/VIRTUAL HOST] (default: {DEFAULT_URL})")
    group.add_argument("--user", metavar="NAME", help="the user; without --password-file a terminal asks for it")
    group.add_argument(
        "--password-file",
        metavar="FILE",
        help="the password is the first line of this file, or with env:VARIABLE an environment variable",
    )
    group.add_argument("--tls-ca", metavar="FILE", help="trust these authorities (PEM) instead of the system's")
    group.add_argument("--tls-cert", metavar="FILE", help="this side's certificate (PEM), to log in with it")
    group.add_argument("--tls-key", metavar="FILE", help="its private key (PEM), if it is not in the same file")
    group.add_argument(
        "--allow-plain-over-tcp",
        action="store_true",
        default=None,
        help="send the password in clear text, also to another machine",
    )
    group.add_argument(
        "--dialect", metavar="NAME", help="how the peer writes addresses, if it does not tell what it is"
    )


def given_settings(arguments: argparse.Namespace) -> PeerSettings:
    """Return the settings that the options give; relative names of files become absolute.

    Errors: `CommandEnded` for a url that cannot be, or has a password.
    """
    settings = PeerSettings(**{each.name: getattr(arguments, each.name) for each in fields(PeerSettings)})
    return settings if settings.url is None else _checked_url(settings)


def _checked_url(settings: PeerSettings) -> PeerSettings:
    """Return the settings with the user of the url in its own field, and no password anywhere."""
    from dataclasses import replace

    from rstreams.errors import ConfigError
    from rstreams.net.transport.address import parse_url

    url = settings.url or DEFAULT_URL
    try:
        address = parse_url(url)
    except ConfigError as error:
        text = str(error).replace("; an address is given to stream() or publish()", "; an address is an argument")
        msg = f"--{text}"
        raise mistake(msg) from None
    if address.password is not None:
        msg = (
            f"--url {address.url}: it has a password, and the process list would show it; give --user NAME and "
            "--password-file FILE, or env:VARIABLE as FILE"
        )
        raise mistake(msg)
    host = "" if address.virtual_host is None else f"/{quote(address.virtual_host, safe='')}"
    return replace(settings, url=f"{address.url}{host}", user=settings.user or address.user)


def chosen_peer(arguments: argparse.Namespace, *, may_ask: bool = True) -> ChosenPeer:
    """Return the peer that the options and the contexts name.

    Args:
        arguments: The options.
        may_ask: Whether a terminal may be asked for a password that is kept nowhere.

    Errors: `CommandEnded` for a setting that cannot be.
    """
    given = given_settings(arguments)
    if not 0 < arguments.timeout < float("inf"):
        msg = f"--timeout {arguments.timeout:g}: give a number of seconds above 0, such as 10"
        raise mistake(msg)
    name = ""
    if given.url is None:
        contexts = read_contexts()
        name = arguments.context or os.environ.get(VARIABLE, "") or contexts.selected
        if name:
            given = given.over(contexts.settings(name))
    elif arguments.context:
        msg = f"--url and --context {arguments.context!r}: give one of them"
        raise mistake(msg)
    return ChosenPeer(given, given.url or DEFAULT_URL, _password(given, may_ask=may_ask), name, arguments.timeout)


def _password(settings: PeerSettings, *, may_ask: bool) -> str | None:
    """Return the password of the user; None if there is no user, or no password is given and nobody can be asked."""
    if settings.user is None:
        if settings.password_file is not None:
            msg = "--password-file: whose password is it? Give --user NAME, too"
            raise mistake(msg)
        return None
    if settings.password_file is not None:
        return password_of(settings.password_file)
    if not may_ask or not sys.stdin.isatty():
        msg = f"--user {settings.user}: give --password-file FILE, or env:VARIABLE as FILE"
        raise mistake(msg)
    try:
        return getpass.getpass(f"password of {settings.user}: ")
    except EOFError:
        msg = f"--user {settings.user}: no password was typed"
        raise mistake(msg) from None


def password_of(place: str) -> str:
    """Return the password in a file or, with `env:VARIABLE`, in a variable. No error shows what is there.

    Errors: `CommandEnded` if there is none.
    """
    if place.startswith("env:"):
        password, where = os.environ.get(place[4:], ""), f"the environment variable {place[4:]}"
    else:
        password, where = _first_line(place), f"the first line of {place}"
    if not password:
        msg = f"--password-file: {where} is empty or missing"
        raise mistake(msg)
    return password


def _first_line(place: str) -> str:
    try:
        with Path(place).open("rb") as file:
            return file.readline(_FAR_TOO_LONG).decode().rstrip("\r\n")
    except UnicodeDecodeError:
        why = "it is not UTF-8 text"
    except OSError as error:
        why = error.strerror or "it is not a file"
    except ValueError:
        why = "it is not the name of a file"
    msg = f"--password-file {place!r} cannot be read: {why}"
    raise mistake(msg)
