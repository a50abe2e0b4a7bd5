"""`rstreams node`: the embedded node as a process of its own, until a signal stops it."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import signal
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, TypeAlias, cast

import trio

from rstreams.errors import ConfigError
from rstreams.net.options.limits import (
    DEFAULT_MAX_MESSAGE_BYTES,
    DEFAULT_MAX_UNFINISHED_BYTES,
    DEFAULT_MAX_UNSETTLED,
    DEFAULT_MAX_UNSETTLED_BYTES,
    DEFAULT_TOTAL_UNFINISHED_BYTES,
    DEFAULT_TOTAL_UNSETTLED_BYTES,
)
from rstreams.net.transport.address import DEFAULT_PORT, DEFAULT_TLS_PORT
from rstreams.net.transport.listener import DEFAULT_MAX_CONNECTIONS
from rstreams.node import Node
from rstreams.runtime.scope import Scope
from rstreams.tls import server_context

Overflow: TypeAlias = Literal["block", "drop_oldest"]

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

_EXAMPLES = """\
examples:
  rstreams node --queue orders --queue jobs:5000
  rstreams node --listen 127.0.0.1:0 --multicast prices:drop_oldest --url-file node.url
  rstreams node --queue orders --user alice:/run/secrets/alice --user bob:env:BOBS_PASSWORD
  rstreams node --listen 0.0.0.0:5671 --tls-cert node.pem --tls-key node.key --tls-client-ca clients.pem --queue orders
"""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its options."""
    parser = commands.add_parser(
        "node",
        help="run a node with queues and multicasts, in memory",
        description="Run an AMQP 1.0 node with queues and multicasts, in memory, until SIGINT or SIGTERM. When it is "
        "ready it prints one line: listening on amqp://HOST:PORT, or amqps:// with TLS",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
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
        help="let in only these users; the password is the first line of FILE or, with NAME:env:VARIABLE, "
        "an environment variable; may be repeated (default: everyone is let in)",
    )
    _add_security_to(parser)
    parser.add_argument("--url-file", type=Path, metavar="FILE", help="write the url to FILE while the node listens")
    parser.set_defaults(run=run)


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
        "--allow-plain-over-tcp",
        action="store_true",
        help="accept passwords in clear text from other machines; by default, without TLS, only from this machine",
    )
    for option, metavar, default, what in (
        ("--max-connections", "COUNT", DEFAULT_MAX_CONNECTIONS, "the most open connections"),
        ("--max-message-bytes", "BYTES", DEFAULT_MAX_MESSAGE_BYTES, "the largest message"),
        ("--max-unsettled", "COUNT", DEFAULT_MAX_UNSETTLED, "the most messages a consumer may have without settling"),
        ("--max-unsettled-bytes", "BYTES", DEFAULT_MAX_UNSETTLED_BYTES, "the same in bytes"),
        ("--total-unsettled-bytes", "BYTES", DEFAULT_TOTAL_UNSETTLED_BYTES, "the most that those of all may cost"),
        (
            "--max-unfinished-bytes",
            "BYTES",
            DEFAULT_MAX_UNFINISHED_BYTES,
            "the most of a connection's unfinished messages",
        ),
        ("--total-unfinished-bytes", "BYTES", DEFAULT_TOTAL_UNFINISHED_BYTES, "the same of all connections"),
    ):
        group.add_argument(option, type=int, metavar=metavar, default=default, help=f"{what} (default: %(default)s)")


def run(arguments: argparse.Namespace) -> None:
    """Run the node.

    Errors: `ConfigError` for an option that is not allowed; `TransportError` if it cannot listen; `OSError` for a file
        that cannot be read or written.
    Context: Blocks until a signal comes; then every connection is closed in order.
    """
    collect_seldom()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    trio.run(_run, arguments)


def collect_seldom() -> None:
    """Have Python search for reference cycles seldom: the search stops all links, for longer if there are more.

    The objects of an ended connection are freed without it.
    """
    gc.set_threshold(50_000, 20, 100)


async def _run(arguments: argparse.Namespace) -> None:
    tls = _tls(arguments)
    place = arguments.listen
    if place is None:
        place = f"127.0.0.1:{DEFAULT_PORT if tls is None else DEFAULT_TLS_PORT}"
    node = Node(
        users=_users(arguments.user),
        certificate_users=_certificate_users(arguments.certificate_user),
        max_message_bytes=arguments.max_message_bytes,
        max_unsettled=arguments.max_unsettled,
        max_unsettled_bytes=arguments.max_unsettled_bytes,
        total_unsettled_bytes=arguments.total_unsettled_bytes,
        max_unfinished_bytes=arguments.max_unfinished_bytes,
        total_unfinished_bytes=arguments.total_unfinished_bytes,
    )
    # One signal is enough: a second one finds the node closing. A second one is usual: a terminal sends a signal to all
    # processes in it, and the program that started the node may also send one.
    with trio.open_signal_receiver(*SIGNALS) as signals:
        stop = trio.Event()
        async with Scope() as scope, node:
            scope.nursery.start_soon(_watch, signals, stop)
            for text in arguments.queue:
                name, capacity = _queue(text)
                node.queue(name, capacity=capacity)
            for text in arguments.multicast:
                name, overflow = _multicast(text)
                node.multicast(name, overflow=overflow)
            listener = await node.listen(
                place,
                tls=tls,
                allow_plain_over_tcp=arguments.allow_plain_over_tcp,
                max_connections=arguments.max_connections,
            )
            with _written(arguments.url_file, listener.url):
                print(f"listening on {listener.url}", flush=True)
                await stop.wait()


async def _watch(signals: AsyncIterator[int], stop: trio.Event) -> None:
    async for _ in signals:
        stop.set()


@contextmanager
def _written(path: Path | None, url: str) -> Iterator[None]:
    """Have `url` in a file for the length of a block; the file never holds only a part of it."""
    if path is None:
        yield
        return
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_text(f"{url}\n", encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        msg = f"--url-file {str(path)!r} cannot be written: {error.strerror}"
        raise OSError(msg) from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _queue(text: str) -> tuple[str, int]:
    """Return the name and capacity in `NAME[:CAPACITY]`."""
    name, colon, capacity = text.rpartition(":")
    if not colon:
        return text, 1024
    _check_one_colon("--queue", text, name, "NAME:CAPACITY", "dead letters, and names with a colon, need Node.queue()")
    if not capacity.isascii() or not capacity.isdigit():
        msg = f"--queue {text!r}: the capacity must be a number of messages, not {capacity!r} (NAME or NAME:CAPACITY)"
        raise ConfigError(msg)
    return name, int(capacity)


def _multicast(text: str) -> tuple[str, Overflow]:
    """Return the name and overflow in `NAME[:OVERFLOW]`."""
    name, colon, overflow = text.rpartition(":")
    if not colon:
        return text, "block"
    _check_one_colon("--multicast", text, name, "NAME:OVERFLOW", "names with a colon need Node.multicast()")
    if overflow not in {"block", "drop_oldest"}:
        msg = f"--multicast {text!r}: the overflow must be block or drop_oldest, not {overflow!r}"
        raise ConfigError(msg)
    return name, cast("Overflow", overflow)


def _check_one_colon(option: str, text: str, name: str, form: str, more: str) -> None:
    """Check that the name has no colon: it would become a part of the name by mistake."""
    if ":" in name:
        msg = f"{option} {text!r}: give NAME or {form}, and no colon in NAME; {more} in Python"
        raise ConfigError(msg)


def _tls(arguments: argparse.Namespace) -> ssl.SSLContext | None:
    """Return the TLS context that the options ask for."""
    options = {"certificate": "--tls-cert", "key": "--tls-key", "client_ca": "--tls-client-ca"}
    if arguments.tls_cert is None:
        for given, option in ((arguments.tls_key, "--tls-key"), (arguments.tls_client_ca, "--tls-client-ca")):
            if given is not None:
                msg = f"{option} {given!r}: TLS also needs a certificate of the node; give --tls-cert"
                raise ConfigError(msg)
        return None
    try:
        return server_context(arguments.tls_cert, arguments.tls_key, client_ca=arguments.tls_client_ca)
    except ConfigError as error:
        name, _, why = str(error).partition("=")
        msg = f"{options[name]} {why}"
        raise ConfigError(msg) from None


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


def _users(texts: list[str]) -> dict[str, str] | None:
    """Return the passwords by user, or None if no user was given: then every client is let in."""
    users: dict[str, str] = {}
    for text in texts:
        name, password = _user(text)
        if name in users:
            msg = f"--user {name!r} is given twice"
            raise ConfigError(msg)
        users[name] = password
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
