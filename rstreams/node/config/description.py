"""A node as data: what the command line, a config file and a test describe, and `Node` then does.

Nothing here knows the options of a kind of address; see `rstreams.node.kinds`.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

from rstreams import _machine
from rstreams._certificate_dates import warnings_about
from rstreams.errors import ConfigError
from rstreams.net.options.limits import DEFAULT_DRAIN_S
from rstreams.net.transport.accounts import UserLimits
from rstreams.net.transport.address import DEFAULT_PORT, DEFAULT_TLS_PORT, parse_place
from rstreams.net.transport.listener import Listener
from rstreams.net.transport.listening_place import ListeningOptions, ListeningPlace
from rstreams.net.transport.passwords import PasswordHash
from rstreams.net.transport.security import Admission
from rstreams.node.access import Permission
from rstreams.node.dead_letters import lost_at_a_restart
from rstreams.node.kinds import KINDS
from rstreams.node.node import Node
from rstreams.node.plain_options import options_of, shown_options
from rstreams.node.queue import Queue
from rstreams.tls import server_context

DEFAULT_HTTP_PLACE: Final = "127.0.0.1:15692"
"""Where a node answers HTTP, unless the place is given: the port of RabbitMQ's metrics."""

ACCESS: Final = ("users", "certificate_users", "permissions", "limits")
"""The options of `Node` that have tables of their own in a file."""


@dataclass(frozen=True, slots=True)
class DeclaredAddress:
    """One address: the name of its kind's table, its name, and the options that were given."""

    table: str
    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def add_to(self, node: Node) -> None:
        """Add it to a node."""
        KINDS[self.table].make(node, self.name, self.options)

    def __str__(self) -> str:
        """Return it with all its options."""
        kind = KINDS[self.table]
        return f"{kind.word} {self.name!r}: {shown_options(kind.options(Node), self.options)}"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The files of a listener that speaks TLS; as for `rstreams.tls.server_context`.

    Attributes:
        certificate: The node's certificate.
        key: Its private key, if it is not in the same file.
        password_file: A file whose first line is the password of the key, if it is encrypted.
        client_ca: The certificates of the authorities whose clients are let in.
        require_client_certificate: With `client_ca`, whether clients without a certificate are refused.
    """

    certificate: str
    key: str | None = None
    password_file: str | None = None
    client_ca: str | None = None
    require_client_certificate: bool = True

    def context(self) -> ssl.SSLContext:
        """Read the files.

        Errors: `ConfigError` that names the file and the reason.
        """
        password = None
        if self.password_file is not None:
            try:
                text = Path(self.password_file).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
                msg = f"password_file={self.password_file!r}: the file cannot be read: {why}"
                raise ConfigError(msg) from None
            password = text.partition("\n")[0].removesuffix("\r")
        return server_context(
            self.certificate,
            self.key,
            password=password,
            client_ca=self.client_ca,
            require_client_certificate=self.require_client_certificate,
        )


@dataclass(frozen=True, slots=True)
class DeclaredPlace:
    """A place where a node listens: host and port, its TLS, and the other options that were given.

    Attributes:
        word: What it is called.
        speaks: The protocol.
        method: The method of `Node` that listens there.
    """

    word: ClassVar[str]
    speaks: ClassVar[str]
    method: ClassVar[Callable[..., object]]

    place: str = ""
    tls: TlsFiles | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """The place, or the default one."""
        return self.place

    @property
    def context(self) -> ssl.SSLContext | None:
        """The context of TLS, read from its files.

        Errors: `ConfigError` for a file that cannot be used.
        """
        return None if self.tls is None else self.tls.context()

    def check(self, admission: Admission) -> None:
        """Check that no one is let in by mistake, as the node does when it listens.

        Names are not looked up here: other machines may reach any name but "localhost".

        Errors: `ConfigError`, as `Node.listen`.
        Context: Any thread; reads the files.
        """
        place = parse_place(self.where)
        options = ListeningOptions(tls=self.context, **self.options)
        options.check(place, "127.0.0.1" if place.host == "localhost" else place.host, admission)

    def __str__(self) -> str:
        """Return it with all its options."""
        tls = f"plain {self.speaks}" if self.tls is None else f"TLS with {self.tls.certificate}"
        if self.tls is not None and self.tls.client_ca is not None:
            wanted = "required" if self.tls.require_client_certificate else "asked for"
            tls += f", client certificates of {self.tls.client_ca} {wanted}"
        options = shown_options(options_of(self.method, "place", "tls"), self.options)
        return f"{self.word} {self.where}: {tls}, {options}"


@dataclass(frozen=True, slots=True)
class DeclaredListener(DeclaredPlace):
    """A place for AMQP."""

    word: ClassVar[str] = "listener"
    speaks: ClassVar[str] = "AMQP"
    method: ClassVar[Callable[..., object]] = Node.listen

    @property
    def where(self) -> str:
        """The place, or the default one."""
        return self.place or f"127.0.0.1:{DEFAULT_PORT if self.tls is None else DEFAULT_TLS_PORT}"

    @property
    def lets_in(self) -> str:
        """The clients that it lets in, if there are no users, as a sentence."""
        if self.tls is not None and self.tls.client_ca is not None and self.tls.require_client_certificate:
            who = f"every client with a certificate that {self.tls.client_ca} has signed"
        else:
            who = f"every client of {'any' if self.options.get('anonymous') else 'this'} machine"
        return f"{self.word} {self.where} lets in {who}"

    async def open(self, node: Node) -> Listener:
        """Have the node listen.

        Errors: As `Node.listen`; `ConfigError` for a file that cannot be used.
        """
        return await node.listen(self.where, tls=self.context, **self.options)


@dataclass(frozen=True, slots=True)
class DeclaredHttp(DeclaredPlace):
    """A place for HTTP."""

    word: ClassVar[str] = "metrics and probes at"
    speaks: ClassVar[str] = "HTTP"
    method: ClassVar[Callable[..., object]] = Node.listen_http

    @property
    def where(self) -> str:
        """The place, or the default one."""
        return self.place or DEFAULT_HTTP_PLACE

    async def open(self, node: Node) -> ListeningPlace:
        """Have the node answer HTTP.

        Errors: As `Node.listen_http`; `ConfigError` for a file that cannot be used.
        """
        return await node.listen_http(self.where, tls=self.context, **self.options)


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """A whole node.

    Attributes:
        node: Further options of `Node`.
        users: As for `Node`.
        certificate_users: As for `Node`.
        permissions: As for `Node`.
        limits: As for `Node`.
        addresses: The addresses, each after those that it needs.
        listeners: The listeners; none: one at the default place.
        http: The place for HTTP; None: there is none.
        drain_s: How long a node that is told to end may finish the work under way, in seconds; 0: it ends at once.
    """

    node: Mapping[str, Any] = field(default_factory=dict)
    users: Mapping[str, str | PasswordHash] | None = None
    certificate_users: Mapping[str, str] | None = None
    permissions: Sequence[Permission] | None = None
    limits: Mapping[str, UserLimits] | None = None
    addresses: Sequence[DeclaredAddress] = ()
    listeners: Sequence[DeclaredListener] = (DeclaredListener(),)
    http: DeclaredHttp | None = None
    drain_s: float = DEFAULT_DRAIN_S

    @property
    def access(self) -> dict[str, Any]:
        """The options of `Node` and of `Node.renew_access` about users."""
        return {name: getattr(self, name) for name in ACCESS}

    def make(self, **options: Any) -> Node:  # noqa: ANN401 - those of Node
        """Return the node with its addresses, which does not listen yet.

        Args:
            **options: Options of `Node` that replace those of the description.

        Errors: `ConfigError` for an option that is not allowed.
        """
        node = Node(**{**self.access, **self.node, **options})
        for address in self.addresses:
            address.add_to(node)
        return node

    async def listen(self, node: Node) -> list[ListeningPlace]:
        """Have the node listen at all places.

        Errors: As `Node.listen`; `ConfigError` for a file that cannot be used.
        """
        return [await place.open(node) for place in self.places]

    @property
    def places(self) -> list[DeclaredListener | DeclaredHttp]:
        """The places for AMQP, and the one for HTTP behind them."""
        return [*self.listeners, *([] if self.http is None else [self.http])]

    async def renew(self, node: Node, before: NodeConfig, listeners: Sequence[ListeningPlace]) -> None:
        """Have a node that runs take the users, permissions, limits and certificates of this description.

        Args:
            node: The node.
            before: The description that it was made from.
            listeners: Its listeners, in the order of that description.

        Errors: `ConfigError` for a file that cannot be used, or for users without which one of the listeners, with its
            options of now, would let in everyone; then nothing changes.
        """
        mine = {each.where: each.tls.context() for each in self.places if each.tls is not None}
        together = zip(before.places, listeners, strict=True)
        tls = {each: mine[was.where] for was, each in together if was.tls is not None and was.where in mine}
        await node.renew_access(**self.access, tls=tls)

    def check(self) -> None:
        """Check the listeners; what is wrong with the addresses is told by `make`.

        Errors: As `DeclaredListener.check`.
        """
        for listener in self.places:
            listener.check(Admission(self.users, self.certificate_users))

    def warnings(self) -> list[str]:
        """Return what is worth a warning: certificates that are not valid now, or will not be soon; lost dead letters.

        Errors: `ConfigError` for a file that cannot be used.
        Context: Any thread; reads the files.
        """
        now, told = _machine.today_utc(), []
        for each in self.places:
            context = each.context
            if context is not None:
                told += [f"{each.word} {each.where}: {text}" for text in warnings_about(context, now)]
        queues = {each.name: each.options for each in self.addresses if each.table == Queue.table}
        for name, options in queues.items():
            letters = options.get("dead_letters")
            if letters is not None and options.get("durable") and not queues[letters].get("durable"):
                told.append(lost_at_a_restart(name, letters))
        return told

    def fixed_changes(self, before: NodeConfig) -> list[str]:
        """Return what a node of another description cannot take from this one while it runs, as short texts."""
        is_now, was = self._fixed(), before._fixed()
        changes: list[str] = []
        for what in dict.fromkeys([*was, *is_now]):
            if what not in is_now:
                changes.append(f"{what} is gone")
            elif what not in was:
                changes.append(f"{what} is new")
            elif names := sorted(name for name, _ in was[what] ^ is_now[what]):
                changes.append(f"{', '.join(dict.fromkeys(names))} of {what}")
        return changes or ([] if [*is_now] == [*was] else ["the order of addresses or listeners"])

    def _fixed(self) -> dict[str, set[tuple[str, str]]]:
        """Return what a node that runs cannot change: its parts, each with the options that were given."""
        fixed: dict[str, Mapping[str, Any]] = {"the node": {**self.node, "drain_s": self.drain_s}}
        for address in self.addresses:
            fixed[f"{KINDS[address.table].word} {address.name!r}"] = address.options
        for listener in self.places:
            what = f"{listener.word} {listener.where}"
            while what in fixed:  # such as port 0 twice
                what += " again"
            fixed[what] = {"tls": listener.tls is not None, **listener.options}
        return {what: {(name, repr(value)) for name, value in options.items()} for what, options in fixed.items()}

    def lines(self) -> list[str]:
        """Return what would run, in lines."""
        node = shown_options(options_of(Node.__init__, *ACCESS), self.node)
        lines = [f"node: {node}, drain_s={self.drain_s:g}", *map(str, self.places), *map(str, self.addresses)]
        certificates = self.certificate_users or {}
        for user in sorted({*(self.users or {}), *certificates.values()}):
            ways = ["a password"] if user in (self.users or {}) else []
            ways += [f"the certificate {subject}" for subject, owner in certificates.items() if owner == user]
            lines.append(f"user {user!r}: with {' or '.join(ways)}")
        if self.users is None and self.certificate_users is None:
            lines.append("users: none; " + "; ".join(each.lets_in for each in self.listeners))
        lines += [f"limits of {user!r}: {_shown_limits(each)}" for user, each in (self.limits or {}).items()]
        for each in self.permissions or ():
            who, what, where = (", ".join(words) for words in (each.users, each.allow, each.addresses))
            lines.append(f"permission: {who} may {what} at {where}")
        if self.permissions is None:
            lines.append("permissions: none, every client may publish and subscribe; users and this machine may manage")
        return lines


def _shown_limits(limits: UserLimits) -> str:
    names = ("connections", "links", "items_per_s", "bytes_per_s", "received_items_per_s", "received_bytes_per_s")
    return ", ".join(f"{name}={getattr(limits, name)!r}" for name in names)
