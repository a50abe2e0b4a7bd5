"""A node of the options of `rstreams node`: described by them, or by a file; then checked, or run."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
from functools import partial
from pathlib import Path
from typing import Final

import trio

from rstreams import logs
from rstreams._checks.choices import require_choice
from rstreams._checks.numbers import require_seconds
from rstreams.cli.node_limits import LIMITS
from rstreams.cli.serving import serve
from rstreams.errors import ConfigError
from rstreams.net.transport.address import parse_place
from rstreams.node import Node, PasswordHash
from rstreams.node.config import (
    BrokenConfig,
    DeclaredAddress,
    DeclaredHttp,
    DeclaredListener,
    NodeConfig,
    TlsFiles,
    read_config,
)
from rstreams.node.config.description import ACCESS
from rstreams.node.plain_options import options_of

_OPTIONS: Final = options_of(Node.__init__, *ACCESS)
_NODE_OPTIONS: Final = [name for name in LIMITS if name in _OPTIONS]

_BESIDE_FILE: Final = (
    "command",
    "node_command",
    "run",
    "parser",
    "config",
    "check",
    "url_file",
    "log_format",
    "log_level",
)
"""The options that do not describe the node."""


def run(arguments: argparse.Namespace) -> int:
    """Run the node, or check its description.

    Errors: `ConfigError` for an option that is not allowed; `TransportError` if it cannot listen; `OSError` for a file
        that cannot be read or written.
    Context: Blocks until a signal comes; then every connection is closed in order.
    """
    _check_log(arguments)
    try:
        config = _config(arguments) if arguments.config is None else _config_of_file(arguments)
        if arguments.check:
            if arguments.config is None:  # a file has been tried while it was read
                config.check()
                config.make(store=None)
            print("\n".join(config.lines()))
            for text in config.warnings():
                print(f"WARNING {text}", file=sys.stderr)
            return 0
    except BrokenConfig as error:
        if not arguments.check:
            raise
        print("\n".join(map(str, error.problems)), file=sys.stderr)
        return 2
    collect_seldom()
    _write_log(arguments)
    trio.run(partial(serve, config, file=arguments.config, url_file=arguments.url_file))
    return 0


def _check_log(arguments: argparse.Namespace) -> None:
    require_choice("", "--log-level", arguments.log_level, logs.LogLevel)
    if arguments.log_format is None:
        arguments.log_format = logs.format_of_environment() or "text"
    require_choice("", "--log-format", arguments.log_format, logs.LogFormat)


def _write_log(arguments: argparse.Namespace) -> None:
    logs.give_up_configuration()
    logging.basicConfig(handlers=[logs.handler_for(arguments.log_format)])
    logging.getLogger("rstreams").setLevel(arguments.log_level.upper())


def collect_seldom() -> None:
    """Have Python search for reference cycles seldom: the search stops all links, and the longer, the more there are.

    The objects of an ended connection are freed without it.
    """
    gc.set_threshold(50_000, 20, 100)


def _config_of_file(arguments: argparse.Namespace) -> NodeConfig:
    """Return the node that the file describes; no other option may describe it too."""
    for name, value in vars(arguments).items():
        if name not in _BESIDE_FILE and value != arguments.parser.get_default(name):
            where = ', as `place = "HOST:PORT"` in the table [[listen]]' if name == "listen" else ""
            msg = f"--{name.replace('_', '-')} with --config: give it in the file{where}"
            raise ConfigError(msg)
    return read_config(arguments.config)


def _config(arguments: argparse.Namespace) -> NodeConfig:
    """Return the node that the options describe."""
    certificate_users = _certificate_users(arguments.certificate_user)
    listening = {
        "anonymous": arguments.anonymous,
        "allow_plain_over_tcp": arguments.allow_plain_over_tcp,
        "max_connections": arguments.max_connections,
    }
    http = {name: listening[name] for name in ("anonymous", "allow_plain_over_tcp")}
    require_seconds("", "--drain-s", arguments.drain_s, zero=True)
    return NodeConfig(
        node={"store": arguments.store, **{name: getattr(arguments, name) for name in _NODE_OPTIONS}},
        users=_users(arguments.user),
        certificate_users=certificate_users,
        addresses=[*map(_queue, arguments.queue), *map(_multicast, arguments.multicast)],
        listeners=[DeclaredListener(_place(arguments.listen), _tls(arguments), listening)],
        http=None if arguments.http is None else DeclaredHttp(_place(arguments.http), _tls(arguments), http),
        drain_s=arguments.drain_s,
    )


def _place(listen: str | None) -> str:
    if listen is not None:
        parse_place(listen)
    return listen or ""


def _queue(text: str) -> DeclaredAddress:
    """Return the queue for `NAME[:CAPACITY]`."""
    name, colon, capacity = text.rpartition(":")
    if not colon:
        return DeclaredAddress("queues", text)
    _check_one_colon(
        "--queue", text, name, "NAME:CAPACITY", "dead letters, and names with a colon, need --config, or Node.queue()"
    )
    if not capacity.isascii() or not capacity.isdigit():
        msg = f"--queue {text!r}: the capacity must be a number of messages, not {capacity!r} (NAME or NAME:CAPACITY)"
        raise ConfigError(msg)
    return DeclaredAddress("queues", name, {"capacity": int(capacity)})


def _multicast(text: str) -> DeclaredAddress:
    """Return the multicast for `NAME[:OVERFLOW]`."""
    name, colon, overflow = text.rpartition(":")
    if not colon:
        return DeclaredAddress("multicasts", text)
    _check_one_colon("--multicast", text, name, "NAME:OVERFLOW", "names with a colon need Node.multicast()")
    if overflow not in {"block", "drop_oldest"}:
        msg = f"--multicast {text!r}: the overflow must be block or drop_oldest, not {overflow!r}"
        raise ConfigError(msg)
    return DeclaredAddress("multicasts", name, {"overflow": overflow})


def _check_one_colon(option: str, text: str, name: str, form: str, more: str) -> None:
    """Check that the name has no colon: it would become a part of the name by mistake."""
    if ":" in name:
        msg = f"{option} {text!r}: give NAME or {form}; NAME must have no colon; {more} in Python"
        raise ConfigError(msg)


def _tls(arguments: argparse.Namespace) -> TlsFiles | None:
    """Return the files for TLS that the options name; they can be used."""
    options = {"certificate": "--tls-cert", "key": "--tls-key", "client_ca": "--tls-client-ca"}
    if arguments.tls_cert is None:
        for given, option in ((arguments.tls_key, "--tls-key"), (arguments.tls_client_ca, "--tls-client-ca")):
            if given is not None:
                msg = f"{option} {given!r}: TLS also needs a certificate of the node; give --tls-cert"
                raise ConfigError(msg)
        return None
    files = TlsFiles(arguments.tls_cert, arguments.tls_key, client_ca=arguments.tls_client_ca)
    try:
        files.context()
    except ConfigError as error:
        name, _, why = str(error).partition("=")
        msg = f"{options[name]} {why}"
        raise ConfigError(msg) from None
    return files


def _certificate_users(texts: list[str]) -> dict[str, str] | None:
    """Return the users by certificate subject, from texts `NAME:SUBJECT`; None if there is no text."""
    users: dict[str, str] = {}
    for text in texts:
        name, _, subject = text.partition(":")
        if not name or "=" not in subject:
            msg = f"--certificate-user {text!r}: give NAME:SUBJECT, such as alice:CN=alice,O=Example"
            raise ConfigError(msg)
        users[subject] = name
    return users or None


def _users(texts: list[str]) -> dict[str, str | PasswordHash] | None:
    """Return the passwords by user, or None if no user was given: then every client is let in."""
    users: dict[str, str | PasswordHash] = {}
    for text in texts:
        name, password = _user(text)
        if name in users:
            msg = f"--user {name!r} is given twice"
            raise ConfigError(msg)
        users[name] = PasswordHash(password) if password.startswith("$scrypt$") else password
    return users or None


def _user(text: str) -> tuple[str, str]:
    """Return the name and the password for `NAME:FILE` or `NAME:env:VARIABLE`.

    No error repeats the text behind the name: it may be the password, given by mistake.
    """
    name, _, place = text.partition(":")
    if not name or not place:
        msg = f"--user {name!r}: give NAME:FILE or NAME:env:VARIABLE"
        raise ConfigError(msg)
    if place.startswith("env:"):
        password, where = os.environ.get(place[4:], ""), "environment variable"
    else:
        password, where = _first_line(name, Path(place)), "password file's first line"
    if not password:
        msg = f"--user {name!r}: the {where} is empty or missing"
        raise ConfigError(msg)
    return name, password


def _first_line(name: str, path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        why = "it is not UTF-8 text"
    except OSError as error:
        why = error.strerror or "it is not a file"
    else:
        return text.partition("\n")[0].removesuffix("\r")
    msg = f"--user {name!r}: the password file cannot be read: {why} (NAME:FILE; the password itself is in FILE)"
    raise ConfigError(msg)
