"""`rstreams node`: the options of the command, which become the description of a node."""

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

from rstreams._checks.numbers import require_seconds
from rstreams.cli import hash_password
from rstreams.cli.parser import Parser
from rstreams.cli.serving import serve
from rstreams.errors import ConfigError
from rstreams.net.transport.address import parse_place
from rstreams.net.transport.listening_place import DEFAULT_MAX_CONNECTIONS
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
from rstreams.node.config.description import ACCESS, DEFAULT_DRAIN_S
from rstreams.node.plain_options import options_of

_LIMITS: Final = {
    "max_connections": "the most open connections",
    "max_message_bytes": "the largest message",
    "max_unsettled": "the most unsettled messages of one consumer",
    "max_unsettled_bytes": "the most bytes of these messages",
    "total_unsettled_bytes": "the most bytes of memory for the unsettled messages of all consumers",
    "max_unfinished_bytes": "the most bytes of the incomplete messages of one connection",
    "total_unfinished_bytes": "the same for all connections together",
    "total_stored_bytes": "the most bytes of messages that queues and multicasts keep in memory",
    "total_links": "the most links of all connections",
}
"""The limits of `Node` that have an option of the command, each with the help text of this option."""

_OPTIONS: Final = options_of(Node.__init__, *ACCESS)
_NODE_OPTIONS: Final = [name for name in _LIMITS if name in _OPTIONS]

_BESIDE_FILE: Final = ("command", "node_command", "run", "parser", "config", "check", "url_file")
"""The options that do not describe the node."""

_EXAMPLES = """\
examples:
  rstreams node --queue orders --queue jobs:5000
  rstreams node --listen 127.0.0.1:0 --multicast prices:drop_oldest --url-file node.url
  rstreams node --queue orders --user alice:/run/secrets/alice --user bob:env:BOBS_PASSWORD
  rstreams node --config node.toml
  rstreams node --config node.toml --check
  rstreams node --listen 0.0.0.0:5672 --anonymous --queue orders
  rstreams node --listen 0.0.0.0:5671 --tls-cert node.pem --tls-key node.key --tls-client-ca clients.pem --queue orders
"""


def add_to(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the command and its options."""
    parser = commands.add_parser(
        "node",
        help="run a node, described by options or by a file",
        description="Run an AMQP 1.0 node until SIGINT or SIGTERM. It then finishes the work under way, and a second "
        "signal ends it at once. When it is ready it prints a line for each listener: listening on amqp://HOST:PORT, "
        "or amqps:// with TLS",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="a file (TOML) that describes the node: listeners, addresses, users, permissions, limits; SIGHUP reads "
        "users, permissions, limits and certificates again",
    )
    parser.add_argument("--check", action="store_true", help="print what would run, or all that is wrong, and end")
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="where to listen; port 0 is any free port (default: 127.0.0.1:5672, with TLS 127.0.0.1:5671)",
    )
    parser.add_argument(
        "--queue",
        action="append",
        default=[],
        metavar="NAME[:CAPACITY]",
        help="a queue for competing consumers, of 1024 messages or as many as given; no colon in NAME; may be repeated",
    )
    parser.add_argument(
        "--multicast",
        action="append",
        default=[],
        metavar="NAME[:OVERFLOW]",
        help="an address whose subscribers each get a copy: as fast as the slowest (block, the default), or with its "
        "oldest items dropped for a slow subscriber (drop_oldest); may be repeated",
    )
    parser.add_argument(
        "--user",
        action="append",
        default=[],
        metavar="NAME:FILE",
        help="let in only these users; the password, or its hash, is the first line of FILE or, with "
        "NAME:env:VARIABLE, an environment variable; may be repeated (default: everyone of this machine; see "
        "--anonymous)",
    )
    _add_security_to(parser)
    parser.add_argument(
        "--http",
        metavar="HOST:PORT",
        help="where to answer HTTP: /metrics for Prometheus, /state.json, /livez, /readyz; with the users, the TLS and "
        "the security options of --listen (default: nowhere)",
    )
    parser.add_argument("--url-file", type=Path, metavar="FILE", help="write the url to FILE while the node listens")
    parser.add_argument(
        "--store", metavar="FOLDER", help="the folder of durable addresses, made if it is missing; see --config"
    )
    parser.add_argument(
        "--drain-s",
        type=float,
        metavar="SECONDS",
        default=DEFAULT_DRAIN_S,
        help="how long the work under way may take after the first signal; 0: none (default: %(default)s)",
    )
    parser.set_defaults(run=run, parser=parser)
    inner = parser.add_subparsers(dest="node_command", metavar="COMMAND")
    hash_password.add_to(inner)
    parser.commands = inner.choices


def _add_security_to(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("security")
    group.add_argument("--tls-cert", metavar="FILE", help="speak only TLS, with this certificate (PEM)")
    group.add_argument("--tls-key", metavar="FILE", help="its private key (PEM), if it is not in the same file")
    group.add_argument(
        "--tls-client-ca",
        metavar="FILE",
        help="let in only clients with a certificate that one of these authorities (PEM) has signed",
    )
    group.add_argument(
        "--certificate-user",
        action="append",
        default=[],
        metavar="NAME:SUBJECT",
        help="let in by certificate (SASL EXTERNAL) only clients whose certificate has this subject, such as "
        "alice:CN=alice,O=Example; may be repeated (default: every certificate that is signed)",
    )
    group.add_argument(
        "--anonymous",
        action="store_true",
        help="let everyone in, also from other machines, if there are no users; by default only from this machine",
    )
    group.add_argument(
        "--allow-plain-over-tcp",
        action="store_true",
        help="accept passwords in clear text from other machines; by default, without TLS, only from this machine",
    )
    for name, what in _LIMITS.items():
        option, metavar = f"--{name.replace('_', '-')}", "BYTES" if name.endswith("bytes") else "COUNT"
        default = DEFAULT_MAX_CONNECTIONS if name == "max_connections" else _OPTIONS[name].default
        group.add_argument(option, type=int, metavar=metavar, default=default, help=f"{what} (default: %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    """Run the node, or check its description.

    Errors: `ConfigError` for an option that is not allowed; `TransportError` if it cannot listen; `OSError` for a file
        that cannot be read or written.
    Context: Blocks until a signal comes; then every connection is closed in order.
    """
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
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    for name in ("rstreams.cli", "rstreams.node"):
        logging.getLogger(name).setLevel(logging.INFO)
    trio.run(partial(serve, config, file=arguments.config, url_file=arguments.url_file))
    return 0


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
