"""Reading a config file: all that is wrong in it is found at once, each with its line."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from pathlib import Path as File
from typing import Any, Final, NoReturn, TypeVar

from rstreams._checks.numbers import require_seconds
from rstreams.errors import ConfigError
from rstreams.net.options.limits import DEFAULT_DRAIN_S
from rstreams.net.transport.accounts import EVERYONE, UserLimits
from rstreams.net.transport.address import parse_place
from rstreams.net.transport.listening_place import ListeningOptions
from rstreams.net.transport.passwords import PasswordHash
from rstreams.net.transport.security import Admission
from rstreams.node.access import ACTIONS, Permission
from rstreams.node.config.description import (
    ACCESS,
    DeclaredAddress,
    DeclaredHttp,
    DeclaredListener,
    DeclaredPlace,
    NodeConfig,
    TlsFiles,
)
from rstreams.node.config.problems import BrokenConfig, Problem, Problems
from rstreams.node.config.toml_lines import Path, key_lines
from rstreams.node.kinds import KINDS, REFERS, AddressKind
from rstreams.node.node import Node
from rstreams.node.plain_options import PlainOption, options_of
from rstreams.tls import client_context

L = TypeVar("L", bound=DeclaredPlace)

_TABLES: Final = ("node", "listen", "http", *KINDS, "users", "limits", "permissions")
_PLACE_OF_ERROR: Final = re.compile(r" \(at line (\d+), column \d+\)$| \(at end of document\)$")


def read_config(file: str | os.PathLike[str]) -> NodeConfig:
    """Read a config file.

    Paths in it are relative to its folder. Modules that it names are also looked for there.

    Args:
        file: The file (TOML).

    Errors: `BrokenConfig` with all that is wrong.
    Context: Any thread; reads the file and those that it names, and imports the modules that it names.
    """
    shown = os.fspath(file)
    try:
        text = File(file).read_text(encoding="utf-8")
    except OSError as error:
        raise BrokenConfig([Problem(shown, None, f"it cannot be read: {error.strerror}")]) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise BrokenConfig([Problem(shown, line, "it is not UTF-8 text")]) from None
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = _PLACE_OF_ERROR.search(str(error))
        at = text.count("\n") + 1 if place is None or place[1] is None else int(place[1])
        why = _PLACE_OF_ERROR.sub("", str(error))
        raise BrokenConfig([Problem(shown, at, f"it is not TOML: {why}")]) from None
    problems = Problems(shown, key_lines(text.replace("\r\n", "\n")))
    with _importing_from(File(file).resolve().parent) as folder:
        config = _FileReader(problems, problems.table((), found, _TABLES), folder).read()
    if problems.found:
        raise BrokenConfig(problems.found)
    return config


@contextmanager
def _importing_from(folder: File) -> Iterator[File]:
    """Find modules in `folder` too, behind all other places."""
    sys.path.append(str(folder))
    try:
        yield folder
    finally:
        sys.path.remove(str(folder))


class _FileReader:
    """Reads the tables of one file."""

    def __init__(self, problems: Problems, tables: Mapping[str, Any], folder: File) -> None:
        self._problems = problems
        self._tables = tables
        self._folder = folder
        self._users: dict[str, PasswordHash] = {}
        self._subjects: dict[str, str] = {}
        self._limits: dict[str, UserLimits] = {}
        self._users_are_known = True
        self._asks = False  # whether a listener asks for client certificates

    def read(self) -> NodeConfig:
        drain_s, node = self._read_node()
        before = len(self._problems.found)
        self._read_users()
        self._users_are_known = len(self._problems.found) == before
        listeners = self._read_listeners()
        return NodeConfig(
            node=node,
            users=self._users or None,
            certificate_users=self._subjects or None,
            permissions=self._read_permissions(),
            limits=self._limits or None,
            addresses=self._read_addresses(node),
            listeners=listeners,
            http=self._read_http(listeners),
            drain_s=drain_s,
        )

    # the node

    def _read_node(self) -> tuple[float, dict[str, Any]]:
        def try_together(*, drain_s: float = DEFAULT_DRAIN_S, **given: Any) -> None:  # noqa: ANN401 - the options of a node
            require_seconds("", "drain_s", drain_s, zero=True)
            Node(**_on_no_disk(given))

        options = {**options_of(Node.__init__, *ACCESS), "drain_s": PlainOption("drain_s", DEFAULT_DRAIN_S, (float,))}
        node = self._problems.options(("node",), self._tables.get("node", {}), options, try_together)
        for name, value in node.items():
            if options[name].is_path and isinstance(value, str):
                node[name] = self._path(value)
        return node.pop("drain_s", DEFAULT_DRAIN_S), node

    def _path(self, name: str) -> str:
        return str(self._folder / name)

    # listeners

    def _read_listeners(self) -> tuple[DeclaredListener, ...]:
        tables = self._problems.tables(("listen",), self._tables.get("listen", [{}]))
        self._asks = any("client_ca" in str(table.get("tls")) for _, table in tables if isinstance(table, dict))
        read = [(path, self._read_listener(path, table, DeclaredListener)) for path, table in tables]
        places: set[str] = set()
        for path, listener in read:
            if listener.where in places and not listener.where.endswith(":0"):
                self._problems.add((*path, "place"), f"the node listens at {listener.where} already")
            places.add(listener.where)
        if self._subjects and not self._asks:
            subject, user = next(iter(self._subjects.items()))
            why = "no listener asks for client certificates; see client_ca of its table tls"
            self._problems.add(("users", user, "certificates"), f"the certificate {subject!r} is of no use: {why}")
        return tuple(listener for _, listener in read)

    def _read_http(self, listeners: Sequence[DeclaredListener]) -> DeclaredHttp | None:
        if "http" not in self._tables:
            return None
        http = self._read_listener(("http",), self._tables["http"], DeclaredHttp)
        if any(each.where == http.where and not each.where.endswith(":0") for each in listeners):
            self._problems.add(("http", "place"), f"the node listens at {http.where} already")
        return http

    def _read_listener(self, path: Path, value: object, kind: type[L]) -> L:
        options = options_of(kind.method, "place", "tls")
        table = dict(self._problems.table(path, value, ("place", "tls", *options)))
        place, tls = table.pop("place", ""), table.pop("tls", None)
        if not isinstance(place, str):
            self._problems.add((*path, "place"), f"place = {place!r:.80}: it must be a text, host:port")
            place = ""
        before = len(self._problems.found)
        files = None if tls is None else self._read_tls((*path, "tls"), tls)
        known = self._users_are_known and len(self._problems.found) == before
        listener = kind(place, files, self._problems.options(path, table, options, ListeningOptions))
        with self._problems.noting((*path, "place")):
            parse_place(listener.where)
            if known:
                flags = {name: each for name, each in listener.options.items() if isinstance(each, bool)}
                admission = Admission(self._users or None, (self._subjects or None) if self._asks else None)
                replace(listener, options=flags).check(admission)
        return listener

    def _read_tls(self, path: Path, value: object) -> TlsFiles | None:
        before = len(self._problems.found)
        given = self._problems.options(path, value, options_of(TlsFiles), lambda **_: None)
        if len(self._problems.found) > before:
            return None
        paths: dict[str, Any] = {
            name: self._path(each) if isinstance(each, str) else each for name, each in given.items()
        }
        files = TlsFiles(**paths)
        with self._problems.noting(path, given):
            replace(files, client_ca=None).context()
        if files.client_ca is not None:
            try:
                client_context(ca_file=files.client_ca)
            except ConfigError as error:
                self._problems.add((*path, "client_ca"), str(error).replace("ca_file=", "client_ca=", 1))
        return files

    # users

    def _read_users(self) -> None:
        for user, value in self._problems.table(("users",), self._tables.get("users", {})).items():
            path: Path = ("users", user)
            table = self._problems.table(path, value, ("password", "certificates", "limits"))
            if "password" not in table and "certificates" not in table:
                self._problems.add(path, f"user {user!r:.80} has neither a password nor certificates")
            if "password" in table:
                with self._problems.noting((*path, "password")):
                    self._users[user] = PasswordHash(table["password"])
            for subject in self._problems.texts((*path, "certificates"), table.get("certificates", ["="])) or ():
                self._note_subject((*path, "certificates"), subject, user, given="certificates" in table)
            if "limits" in table:
                self._limits[user] = self._read_limits((*path, "limits"), table["limits"])
        if "limits" in self._tables:
            self._limits[EVERYONE] = self._read_limits(("limits",), self._tables["limits"])

    def _note_subject(self, path: Path, subject: str, user: str, *, given: bool) -> None:
        if not given:
            return
        if "=" not in subject:
            self._problems.add(
                path, f"{subject!r:.80} is not the subject of a certificate, such as 'CN=alice,O=Example'"
            )
        elif subject in self._subjects:
            self._problems.add(path, f"the certificate {subject!r:.80} is that of user {self._subjects[subject]!r:.80}")
        else:
            self._subjects[subject] = user

    def _read_limits(self, path: Path, value: object) -> UserLimits:
        read = self._problems.options(path, value, options_of(UserLimits), UserLimits)
        try:
            return UserLimits(**read)
        except ConfigError:
            return UserLimits()  # noted before

    # permissions

    def _read_permissions(self) -> tuple[Permission, ...] | None:
        if "permissions" not in self._tables:
            return None
        names = [field.name for field in fields(Permission)]
        read: list[Permission] = []
        for path, value in self._problems.tables(("permissions",), self._tables["permissions"]):
            table = self._problems.table(path, value, names)
            for name in names:
                if name not in table and isinstance(value, dict):
                    self._problems.add(path, f"a permission has no {name!r}, which must be given")
            parts: dict[str, Any] = {name: self._problems.texts((*path, name), each) for name, each in table.items()}
            for word in parts.get("allow") or ():
                if word not in ACTIONS:
                    self._problems.add(
                        (*path, "allow"), f"{word!r:.80} is not an action; there are {', '.join(ACTIONS)}"
                    )
            for user in parts.get("users") or ():
                if "*" not in user and not self._is_user(user):
                    self._problems.add((*path, "users"), f"there is no user {user!r:.80}")
            if len(parts) == len(names) and None not in parts.values() and set(parts["allow"]) <= set(ACTIONS):
                with self._problems.noting(path, names):
                    read.append(Permission(**parts))
        return tuple(read)

    def _is_user(self, name: str) -> bool:
        """Tell whether there may be such a user; without a table of users, certificates tell their names."""
        return "users" not in self._tables or name in self._tables["users"]

    # addresses

    def _read_addresses(self, node: Mapping[str, Any]) -> tuple[DeclaredAddress, ...]:
        read: dict[Path, DeclaredAddress] = {}
        for table, kind in KINDS.items():
            for name, value in self._problems.table((table,), self._tables.get(table, {})).items():
                path: Path = (table, name)
                try_together = self._trying(kind, name, node)
                given = self._problems.options(path, value, kind.options(Node), try_together)
                read[path] = DeclaredAddress(table, name, given)
        ordered = list(self._in_order(read))
        if not self._problems.found:
            trial = _trial(node)
            for path, address in ordered:
                with self._problems.noting(path, address.options):
                    try:
                        address.add_to(trial)
                    except _TriedEnough:
                        _stand_in(trial, address)
        return tuple(address for _, address in ordered)

    def _trying(self, kind: AddressKind, name: str, node: Mapping[str, Any]) -> Callable[..., None]:
        def try_together(**given: Any) -> None:  # noqa: ANN401 - the options of a kind
            with suppress(_TriedEnough):
                kind.make(_trial(node), name, {option: each for option, each in given.items() if option != REFERS})

        return try_together

    def _in_order(self, read: Mapping[Path, DeclaredAddress]) -> Iterable[tuple[Path, DeclaredAddress]]:
        """Return the addresses, each after the one that takes its dead letters."""
        by_name = {address.name: path for path, address in read.items()}
        done: dict[Path, None] = {}

        def visit(path: Path, way: tuple[Path, ...]) -> None:
            target = read[path].options.get(REFERS)
            needed = by_name.get(target) if target is not None else None
            if path in way:
                names = " -> ".join(str(each[1]) for each in (*way[way.index(path) :], path))
                self._problems.add((*path, REFERS), f"dead letters go in a circle: {names}")
            elif path not in done:
                if target is not None and needed is None:
                    self._problems.add((*path, REFERS), f"{REFERS} = {target!r:.80}: there is no such address")
                elif needed is not None:
                    visit(needed, (*way, path))
                done[path] = None

        for path in read:
            visit(path, ())
        return [(path, read[path]) for path in done]


def _stand_in(trial: Node, address: DeclaredAddress) -> None:
    """Take the names of an address that is in the store: its own, and those of its partitions."""
    trial.queue(address.name)
    partitions = address.options.get("partitions", 1)
    if partitions > 1:
        for number in range(partitions):
            trial.queue(f"{address.name}-{number}")


class _TriedEnough(Exception):
    """The options of a durable address are as they must be."""


class _NoDisk:
    """Stands for the store of a node that is never entered: nothing on the disk is touched."""

    @property
    def store(self) -> _NoDisk:
        """The store: this one."""
        return self

    def require(self, option: str) -> _NoDisk:  # noqa: ARG002 - as `NodeStore`
        """Return the store."""
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The partitions in it: none."""
        return ()

    def partition(self, name: str) -> NoReturn:
        """Let the options pass: they have been checked so far."""
        raise _TriedEnough(name)


def _on_no_disk(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a node without its store, which would be opened."""
    return {name: value for name, value in node.items() if name != "store"}


def _trial(node: Mapping[str, Any]) -> Node:
    """Return a node that is never entered, to try an option."""
    try:
        trial = Node(**_on_no_disk(node))
    except ConfigError:
        trial = Node()  # noted before
    if node.get("store") is not None:
        vars(trial)["_store"] = _NoDisk()
    return trial
