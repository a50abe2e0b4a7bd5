"""The options of the source and the sink: read once, checked at once, never shown with their credentials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal
from urllib.parse import unquote, urlsplit

from rstreams.errors import ConfigError
from rstreams_spark._given import Given
from rstreams_spark._peer import PEER_NAMES, Peer, hide_credentials

__all__ = ["MAX_CREDIT", "Peer", "SinkOptions", "SourceOptions", "hide_credentials"]

MAX_CREDIT: Final = 2**31 - 1
"""The most a link may be granted, and therefore the largest batch."""

_MAX_PARTITIONS: Final = 10_000
_MAX_PACK: Final = 56  # of 1 KB: 64 KiB, and the engine keeps a buffer of a power of two for an unsettled delivery
_SET_BY_SPARK: Final = ("checkpointlocation",)

OnUnparsable = Literal["fail", "reject"]

_RECONNECT_NAMES: Final = ("reconnect", "maxReconnectTime")
_SINK_NAMES: Final = (*PEER_NAMES, *_RECONNECT_NAMES, "address", "durable", "effectivelyOnce", "sendTimeout")
_SOURCE_NAMES: Final = (
    *PEER_NAMES,
    *_RECONNECT_NAMES,
    "address",
    "maxMessagesPerTrigger",
    "maxTriggerDelay",
    "maxMessageSize",
    "numPartitions",
    "prefetch",
    "checkpointLocation",
    "spoolDir",
    "walDir",
    "onUnparsable",
)


@dataclass(frozen=True)
class SourceOptions:
    """The options of `readStream`."""

    peer: Peer
    address: str
    max_messages_per_trigger: int = 10_000
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

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Read the options of a source.

        Errors: `ConfigError` naming the option, its value and what is allowed.
        """
        given = Given(options, "source", _SOURCE_NAMES)
        if given.has("spoolDir") and given.has("walDir"):
            msg = "options spoolDir and walDir: only one of them may be given, because the batches are in either"
            raise ConfigError(msg)
        return cls(
            peer=Peer.parse(given),
            address=given.required("address", "the address to receive from, such as temperature"),
            max_messages_per_trigger=given.whole("maxMessagesPerTrigger", cls.max_messages_per_trigger, MAX_CREDIT),
            max_trigger_delay_s=given.duration_s("maxTriggerDelay", cls.max_trigger_delay_s),
            max_message_bytes=given.size_bytes("maxMessageSize", cls.max_message_bytes, MAX_CREDIT),
            num_partitions=given.whole("numPartitions", cls.num_partitions, _MAX_PARTITIONS),
            prefetch=given.flag("prefetch", default=cls.prefetch),
            checkpoint=_checkpoint(given),
            spool_dir=given.optional("spoolDir", "a folder that all executors see"),
            wal_dir=given.optional("walDir", "a folder of this query alone that all executors see"),
            on_unparsable=given.one_of("onUnparsable", {"fail": "fail", "reject": "reject"}, cls.on_unparsable),
            reconnect=given.flag("reconnect", default=cls.reconnect),
            max_reconnect_s=given.duration_s("maxReconnectTime", cls.max_reconnect_s, most_h=24),
        )

    @property
    def credit(self) -> int:
        """The most messages granted, received and unsettled together."""
        return min(self.max_messages_per_trigger * (2 if self.prefetch else 1), MAX_CREDIT)

    @property
    def pack_items(self) -> int:
        """The most messages in a delivery, from a peer that knows packs; a batch may have two packs less for it."""
        return max(1, min(_MAX_PACK, self.max_messages_per_trigger // 1_000))

    def without_secrets(self) -> SourceOptions:
        """Return the same options without passwords, for the copies of a reader that open no connection."""
        return replace(self, peer=self.peer.without_secrets())


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

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SinkOptions:
        """Read the options of a sink.

        Errors: `ConfigError` naming the option, its value and what is allowed.
        """
        given = Given(options, "sink", _SINK_NAMES, _SET_BY_SPARK)
        return cls(
            peer=Peer.parse(given),
            address=given.optional("address", "the address to send to, such as alerts"),
            durable=given.flag("durable", default=cls.durable),
            effectively_once=given.flag("effectivelyOnce", default=cls.effectively_once),
            send_timeout_s=given.duration_s("sendTimeout", 0.0, most_h=24) or None,
            reconnect=given.flag("reconnect", default=cls.reconnect),
            max_reconnect_s=given.duration_s("maxReconnectTime", cls.max_reconnect_s, most_h=24),
        )


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
