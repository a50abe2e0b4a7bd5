"""The options of the source and the sink: read once, checked at once, never shown with their credentials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Final, Literal
from urllib.parse import unquote, urlsplit

from rstreams.errors import ConfigError
from rstreams_spark._body_format import BodyFormat
from rstreams_spark._elsewhere import SINK_ELSEWHERE, SOURCE_ELSEWHERE
from rstreams_spark._given import Given
from rstreams_spark._logs.options import LOG_NAMES, LogModeOptions
from rstreams_spark._peer import PEER_NAMES, Peer, hide_credentials

__all__ = ["MAX_CREDIT", "BodyFormat", "Peer", "SinkOptions", "SourceOptions", "hide_credentials"]

MAX_CREDIT: Final = 2**31 - 1
"""The most a link may be granted, and therefore the largest batch."""

_MAX_PARTITIONS: Final = 10_000
_MAX_PACK: Final = 56  # of 1 KB: 64 KiB, and the engine keeps a buffer of a power of two for an unsettled delivery
_MAX_BYTES: Final = 2**40
_SET_BY_SPARK: Final = ("checkpointlocation", "queryname")
"""What Spark adds to the options of a streaming sink by itself, in lower case."""

OnUnparsable = Literal["fail", "reject"]

_RECONNECT_NAMES: Final = ("reconnect", "maxReconnectTime")
_SINK_NAMES: Final = (
    *PEER_NAMES,
    *_RECONNECT_NAMES,
    "address",
    "durable",
    "effectivelyOnce",
    "sendTimeout",
    "window",
    "deadLetterAddress",
    "messageIdPrefix",
)
_SOURCE_NAMES: Final = (
    *PEER_NAMES,
    *_RECONNECT_NAMES,
    "address",
    "maxMessagesPerTrigger",
    "maxBytesPerTrigger",
    "minMessagesPerTrigger",
    "maxTriggerDelay",
    "maxMessageSize",
    "numPartitions",
    "prefetch",
    "checkpointLocation",
    "spoolDir",
    "walDir",
    "onUnparsable",
    "columns",
    "bodyFormat",
    "bodySchema",
    "mode",
    "columnNameOfCorruptRecord",
    *LOG_NAMES,
)


@dataclass(frozen=True)
class SourceOptions:
    """The options of `readStream`."""

    peer: Peer
    address: str
    max_messages_per_trigger: int = 10_000
    max_bytes_per_trigger: int | None = None
    min_messages_per_trigger: int | None = None
    max_trigger_delay_s: float = 0.25
    max_message_bytes: int = 64 * 1024 * 1024
    num_partitions: int = 1
    prefetch: bool = False
    checkpoint: str | None = None
    spool_dir: str | None = None
    wal_dir: str | None = None
    on_unparsable: OnUnparsable = "fail"
    reconnect: bool = True
    max_reconnect_s: float = 600.0
    columns: tuple[str, ...] | None = None
    body: BodyFormat = field(default_factory=BodyFormat)
    log: LogModeOptions = field(default_factory=LogModeOptions)
    dial_timeout_s: ClassVar[None] = None
    """The first connection is tried for as long as a lost one."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Read the options of a source.

        Errors: `ConfigError` naming each wrong option, its value and what is allowed.
        """
        given = Given(options, "source", _SOURCE_NAMES, elsewhere=SOURCE_ELSEWHERE)
        peer = Peer.parse(given)
        made = cls(
            peer=peer,
            address=_address(given, peer),
            max_messages_per_trigger=given.whole("maxMessagesPerTrigger", cls.max_messages_per_trigger, MAX_CREDIT),
            max_bytes_per_trigger=given.size_bytes("maxBytesPerTrigger", 0, _MAX_BYTES) or None,
            min_messages_per_trigger=given.whole("minMessagesPerTrigger", 0, MAX_CREDIT) or None,
            max_trigger_delay_s=given.duration_s("maxTriggerDelay", cls.max_trigger_delay_s),
            max_message_bytes=given.size_bytes("maxMessageSize", cls.max_message_bytes, MAX_CREDIT),
            num_partitions=given.whole("numPartitions", cls.num_partitions, _MAX_PARTITIONS),
            prefetch=given.flag("prefetch", default=cls.prefetch),
            checkpoint=given.attempt(lambda: _checkpoint(given), None),
            spool_dir=given.optional("spoolDir", "a folder that all executors see"),
            wal_dir=given.optional("walDir", "a folder of this query alone that all executors see"),
            on_unparsable=given.one_of("onUnparsable", {"fail": "fail", "reject": "reject"}, cls.on_unparsable),
            reconnect=given.flag("reconnect", default=cls.reconnect),
            max_reconnect_s=given.duration_s("maxReconnectTime", cls.max_reconnect_s, most_h=24),
            columns=_columns(given),
            body=BodyFormat.parse(given),
            log=LogModeOptions.parse(given),
        )
        made._check(given)
        given.check()
        return made

    @property
    def credit(self) -> int:
        """The most messages granted, received and unsettled together."""
        return min(self.max_messages_per_trigger * (2 if self.prefetch else 1), MAX_CREDIT)

    @property
    def pack_items(self) -> int:
        """The most messages in a delivery, from a peer that knows packs; a batch may have two packs less for it."""
        return max(1, min(_MAX_PACK, self.max_messages_per_trigger // 1_000))

    @property
    def _has_no_limit(self) -> bool:
        """Whether a batch may have any number of messages: a log has no default limit."""
        return self.log.read_as == "log" and "maxMessagesPerTrigger" not in self.log.given

    def without_secrets(self) -> SourceOptions:
        """Return the same options without passwords, for the copies of a reader that open no connection."""
        return replace(self, peer=self.peer.without_secrets())

    def _check(self, given: Given) -> None:
        if self.spool_dir is not None and self.wal_dir is not None:
            given.refuse(
                "options spoolDir and walDir: only one of them may be given, because the batches are in either"
            )
        least = self.min_messages_per_trigger
        if least is not None and least > self.max_messages_per_trigger and not self._has_no_limit:
            given.refuse(
                f"option minMessagesPerTrigger={str(least)!r}: must be at most "
                f"maxMessagesPerTrigger={self.max_messages_per_trigger}"
            )
        if "/Partitions/" in self.address and (self.peer.dialect == "eventhubs" or self.peer.tokens is not None):
            given.refuse(
                f"option address={self.address!r}: name the hub alone, with dialect=eventhubs: all its partitions are "
                "read; option consumerGroup names the consumer group"
            )
        from rstreams_spark._schema import check_columns

        given.attempt(lambda: check_columns(self.columns, self.body.corrupt_column), None)


@dataclass(frozen=True)
class SinkOptions:
    """The options of `writeStream` and `write`."""

    peer: Peer
    address: str | None
    durable: bool = True
    effectively_once: bool = False
    send_timeout_s: float | None = None
    reconnect: bool = True
    max_reconnect_s: float = 600.0
    dead_letter_address: str | None = None
    message_id_prefix: str | None = None

    @property
    def dial_timeout_s(self) -> float | None:
        """How long a task waits for its first connection, if that is less than for a lost one; None: as long."""
        return self.send_timeout_s

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SinkOptions:
        """Read the options of a sink.

        Errors: `ConfigError` naming each wrong option, its value and what is allowed.
        """
        given = Given(options, "sink", _SINK_NAMES, elsewhere=SINK_ELSEWHERE, ignored=_SET_BY_SPARK)
        peer = Peer.parse(given)
        made = cls(
            peer=replace(peer, most_unsettled=given.whole("window", 0, MAX_CREDIT) or None),
            address=given.optional("address", "the address to send to, such as alerts") or peer.entity,
            durable=given.flag("durable", default=cls.durable),
            effectively_once=given.flag("effectivelyOnce", default=cls.effectively_once),
            send_timeout_s=given.duration_s("sendTimeout", 0.0, most_h=24) or None,
            reconnect=given.flag("reconnect", default=cls.reconnect),
            max_reconnect_s=given.duration_s("maxReconnectTime", cls.max_reconnect_s, most_h=24),
            dead_letter_address=given.optional("deadLetterAddress", "the address for rows that are refused"),
            message_id_prefix=given.optional("messageIdPrefix", "the beginning of the message ids"),
        )
        if made.dead_letter_address is not None and made.effectively_once:
            given.refuse("options deadLetterAddress and effectivelyOnce: only one of them may be given")
        if made.dead_letter_address is not None and made.dead_letter_address == made.address:
            given.refuse(f"option deadLetterAddress={made.address!r}: must be another address than option address")
        given.check()
        return made


def _address(given: Given, peer: Peer) -> str:
    for name in ("addresses", "addressPattern"):
        if given.has(name):
            return given.optional(name, "names of logs") or ""
    if peer.entity is not None and not given.has("address"):
        return peer.entity
    return given.required("address", "the address to receive from, such as temperature")


def _columns(given: Given) -> tuple[str, ...] | None:
    text = given.optional("columns", "names of columns, such as 'body, message_id', or * for all")
    if text == "*":
        from rstreams_spark._schema import ALL_COLUMNS

        return ALL_COLUMNS
    return None if text is None else tuple(name.strip() for name in text.split(","))


def _checkpoint(given: Given) -> str | None:
    """Return the folder of the checkpoint, which may be given as a path or as a `file:` url."""
    allowed = "a folder that the driver sees, the same as the query's checkpointLocation"
    location = given.optional("checkpointLocation", allowed)
    if location is None:
        return None
    url = urlsplit(location)
    if url.scheme == "file" and url.netloc in ("", "localhost"):
        return unquote(url.path)
    if url.scheme or not Path(location).is_absolute():
        msg = (
            f"option checkpointLocation={location!r}: must be {allowed}, as an absolute path or a file: url. Leave it "
            "out for other file systems: a batch is then settled when the next one begins"
        )
        raise ConfigError(msg)
    return location
