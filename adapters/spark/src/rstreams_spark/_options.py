"""The options of the source and the sink: read once, checked at once, never shown with their credentials.

Spark hands every option over as a string, its name in lower case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeVar
from urllib.parse import SplitResult, quote, urlsplit

from rstreams.errors import ConfigError

V = TypeVar("V")

MAX_CREDIT: Final = 2**31 - 1
"""The most a link may be granted, and therefore the largest batch."""

_URL: Final = "amqp://[user:password@]host[:port]"
_MAX_DELAY_S: Final = 3600.0
_MAX_PARTITIONS: Final = 10_000
_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_SET_BY_SPARK: Final = frozenset({"checkpointlocation"})

OnUnparsable = Literal["fail", "reject"]


@dataclass(frozen=True)
class Peer:
    """The AMQP peer: its address, and this side's credentials."""

    host: str
    port: int
    url: str = field(repr=False)
    """It has the credentials, therefore it is never shown."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True)
class SourceOptions:
    """The options of `readStream`."""

    peer: Peer
    address: str
    max_messages_per_trigger: int = 10_000
    max_trigger_delay_s: float = 0.25
    num_partitions: int = 1
    spool_dir: str | None = None
    on_unparsable: OnUnparsable = "fail"

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Read the options of a source.

        Errors: `ConfigError` naming the option, its value and what is allowed.
        """
        given = _Given(options, "source", _SOURCE_NAMES)
        return cls(
            peer=given.peer(),
            address=given.required("address", "the address to receive from, such as temperature"),
            max_messages_per_trigger=given.whole("maxMessagesPerTrigger", cls.max_messages_per_trigger, MAX_CREDIT),
            max_trigger_delay_s=given.duration_s("maxTriggerDelay", cls.max_trigger_delay_s),
            num_partitions=given.whole("numPartitions", cls.num_partitions, _MAX_PARTITIONS),
            spool_dir=given.optional("spoolDir", "a folder that all executors see"),
            on_unparsable=given.one_of("onUnparsable", {"fail": "fail", "reject": "reject"}, cls.on_unparsable),
        )


@dataclass(frozen=True)
class SinkOptions:
    """The options of `writeStream` and `write`."""

    peer: Peer
    address: str | None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SinkOptions:
        """Read the options of a sink.

        Errors: `ConfigError` naming the option, its value and what is allowed.
        """
        given = _Given(options, "sink", _SINK_NAMES)
        return cls(peer=given.peer(), address=given.optional("address", "the address to send to, such as alerts"))


_PEER_NAMES: Final = ("url", "username", "password", "address")
_SINK_NAMES: Final = _PEER_NAMES
_SOURCE_NAMES: Final = (
    *_PEER_NAMES,
    "maxMessagesPerTrigger",
    "maxTriggerDelay",
    "numPartitions",
    "spoolDir",
    "onUnparsable",
)


class _Given:
    """The options that Spark gave, and the ways to read one."""

    def __init__(self, options: Mapping[str, str], what: str, known: Iterable[str]) -> None:
        self._options = {name.lower(): value for name, value in options.items()}
        spelled = {name.lower(): name for name in known}
        for name in sorted(self._options):
            if name not in spelled and name not in _SET_BY_SPARK:
                msg = f"the rstreams {what} has no option {name}; it takes {', '.join(spelled.values())}"
                raise ConfigError(msg)

    def required(self, name: str, allowed: str) -> str:
        if name.lower() not in self._options:
            msg = f"option {name} is missing: it must be {allowed}"
            raise ConfigError(msg)
        return self._nonempty(name, allowed)

    def optional(self, name: str, allowed: str) -> str | None:
        return self._nonempty(name, allowed) if name.lower() in self._options else None

    def whole(self, name: str, default: int, most: int) -> int:
        def read(text: str) -> int | None:
            number = int(text) if re.fullmatch(r"[0-9]{1,10}", text) else 0
            return number if 1 <= number <= most else None

        return self._read(name, default, read, f"a whole number from 1 to {most}")

    def duration_s(self, name: str, default: float) -> float:
        def read(text: str) -> float | None:
            match = re.fullmatch(r"([0-9]{1,9}) *(ms|s|m|h)", text)
            seconds = int(match[1]) * _UNITS_S[match[2]] if match else None
            return seconds if seconds is not None and seconds <= _MAX_DELAY_S else None

        return self._read(name, default, read, "a whole number with a unit (ms, s, m or h), from 0ms to 1h")

    def one_of(self, name: str, choices: Mapping[str, V], default: V) -> V:
        return self._read(name, default, lambda text: choices.get(text.lower()), " or ".join(choices))

    def peer(self) -> Peer:
        given = self.required("url", f"{_URL}, such as amqp://127.0.0.1:5672")
        try:
            url = urlsplit(given)
            port = 5672 if url.port is None else url.port
        except ValueError:
            raise _wrong_url(given) from None
        beyond = url.path not in {"", "/"} or url.query or url.fragment
        nameless = url.password is not None and not url.username
        if url.scheme != "amqp" or not url.hostname or not port or beyond or nameless:
            raise _wrong_url(given)
        return Peer(url.hostname, port, self._with_credentials(url))

    def _with_credentials(self, url: SplitResult) -> str:
        username = self.optional("username", "the name to log in with")
        password = self._options.get("password")
        if (username is None) != (password is None):
            missing = "password" if password is None else "username"
            msg = f"option {missing} is missing: username and password must be given together"
            raise ConfigError(msg)
        if username is None or password is None:
            return url.geturl()
        if "@" in url.netloc:
            msg = "options username and password: not allowed beside a url that has a user of its own"
            raise ConfigError(msg)
        return url._replace(netloc=f"{quote(username, safe='')}:{quote(password, safe='')}@{url.netloc}").geturl()

    def _nonempty(self, name: str, allowed: str) -> str:
        return self._read(name, "", lambda text: text or None, allowed)

    def _read(self, name: str, default: V, read: Callable[[str], V | None], allowed: str) -> V:
        given = self._options.get(name.lower())
        if given is None:
            return default
        value = read(given.strip())
        if value is None:
            msg = f"option {name}={given!r}: must be {allowed}"
            raise ConfigError(msg)
        return value


def _wrong_url(url: str) -> ConfigError:
    """Show the given url, without the part before the host, which may have credentials."""
    scheme, mark, rest = url.partition("://") if "://" in url else ("", "", url)
    shown = scheme + mark + rest.rpartition("@")[2]
    return ConfigError(f"option url={shown!r}: must be {_URL}")


def hide_credentials(text: str) -> str:
    """Return an error's text without the credentials of any url in it."""
    return re.sub(r"//[^/\s]*@", "//", text)
