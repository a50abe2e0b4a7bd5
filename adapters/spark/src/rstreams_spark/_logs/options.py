"""The options of log mode."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from rstreams.errors import ConfigError
from rstreams_spark._columns import LOG_COLUMNS
from rstreams_spark._given import Given
from rstreams_spark._logs.bounds import OFFSETS, TIMES, Bound, read_offsets, read_times

ReadAs = Literal["queue", "log"]

LOG_NAMES: Final = (
    "readAs",
    "addresses",
    "addressPattern",
    "startingOffsets",
    "startingTimestamp",
    "endingOffsets",
    "endingTimestamp",
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
    "consumerGroup",
)
"""The options that only a log has, with `readAs`, which chooses."""

_READ_AS: Final[dict[str, ReadAs | None]] = {"queue": "queue", "log": "log"}
_OF_QUEUES: Final = ("numPartitions", "prefetch", "spoolDir", "walDir")
_OF_BOTH: Final = ("maxMessagesPerTrigger", "maxTriggerDelay")
_MAX_TASKS: Final = 100_000
_MAX_ROWS: Final = 2**31 - 1


@dataclass(frozen=True)
class LogModeOptions:
    """The options of log mode.

    Attributes:
        read_as: What the address is; None: the peer tells it.
        addresses: The logs; empty: option address, or the pattern.
        pattern: A regular expression; every log is read whose whole name matches.
        starting: Where a query that starts anew begins; None: at the end for a stream, at the beginning for a batch.
        ending: Where a batch ends; None: at the end.
        fail_on_data_loss: Whether messages that are gone fail the query.
        min_partitions: The number of tasks that a batch has at least, if it has as many messages; None: any.
        max_records: The most messages of a task; None: any number.
        consumer_group: The consumer group of an event hub.
        given: The names of options that are given, of those that are only for a queue, only for a log, or have another
            default for a log.
    """

    read_as: ReadAs | None = None
    addresses: tuple[str, ...] = ()
    pattern: str | None = None
    starting: Bound | None = None
    ending: Bound | None = None
    fail_on_data_loss: bool = True
    min_partitions: int | None = None
    max_records: int | None = None
    consumer_group: str = "$Default"
    given: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, given: Given) -> LogModeOptions:
        """Read the options of log mode; those that are wrong are noted in `given`."""
        named = [name for name in ("address", "addresses", "addressPattern") if given.has(name)]
        if len(named) > 1:
            given.refuse(f"options {' and '.join(named)}: only one of them may be given")
        return cls(
            read_as=given.one_of("readAs", _READ_AS, None),
            addresses=_names(given),
            pattern=given.attempt(lambda: _pattern(given), None),
            starting=_bound(given, "starting"),
            ending=_bound(given, "ending"),
            fail_on_data_loss=given.flag("failOnDataLoss", default=cls.fail_on_data_loss),
            min_partitions=given.whole("minPartitions", 0, _MAX_TASKS) or None,
            max_records=given.whole("maxRecordsPerPartition", 0, _MAX_ROWS) or None,
            consumer_group=given.optional("consumerGroup", "the name of a consumer group") or cls.consumer_group,
            given=frozenset(name for name in (*LOG_NAMES, *_OF_QUEUES, *_OF_BOTH) if given.has(name)),
        )

    def check_queue(self, columns: Iterable[str], why: str) -> None:
        """Check that nothing is asked for that only a log has.

        Args:
            columns: The names of the columns.
            why: Why the address is read as a queue, for the message.

        Errors: `ConfigError` naming the options or the columns.
        """
        _refuse("option", [name for name in LOG_NAMES if name in self.given and name != "readAs"], "log", why)
        _refuse("column", [name for name in LOG_COLUMNS if name in columns], "log", why)

    def check_log(self, address: str, *, batch: bool) -> None:
        """Check that no option is given that only a queue has, or that counts only for the other way to read.

        Errors: `ConfigError` naming the options.
        """
        _refuse("option", [name for name in _OF_QUEUES if name in self.given], "queue", f"{address!r} is a log")
        if not batch and self.ending is not None:
            msg = f"option {self.bound_name('ending')}: only for spark.read; a stream has no end"
            raise ConfigError(msg)

    def bound_name(self, which: str) -> str:
        """Return the name of the option that says where a read begins or ends: `which` is "starting" or "ending"."""
        return f"{which}Timestamp" if f"{which}Timestamp" in self.given else f"{which}Offsets"

    def none_found(self, names: Iterable[str]) -> str:
        """Return text that says that the peer has none of these logs, and names the option that asked for them."""
        if self.pattern is not None:
            return f"option addressPattern={self.pattern!r}: there is no log with such a name"
        option = "addresses" if self.addresses else "address"
        read_as = " (option readAs='log')" if self.read_as == "log" and not self.addresses else ""
        return f"option {option}: there is no log {' or '.join(map(repr, names))}{read_as}"


def _refuse(what: str, names: list[str], kind: str, why: str) -> None:
    """Raise an error if there are names; it says that only a queue or a log has them, and `why` this is none."""
    if names:
        more = "s" if len(names) > 1 else ""
        msg = f"{what}{more} {' and '.join(names)}: only for a {kind}, and {why}"
        raise ConfigError(msg)


def _names(given: Given) -> tuple[str, ...]:
    text = given.optional("addresses", "names of logs with commas between them, such as 'orders, payments'")
    names = () if text is None else tuple(name.strip() for name in text.split(","))
    if "" in names or len(set(names)) < len(names):
        given.refuse(f"option addresses={text!r}: each name must be there once, with commas between them")
    return names


def _pattern(given: Given) -> str | None:
    text = given.optional("addressPattern", "a regular expression for whole names, such as orders-.*")
    try:
        re.compile(text or "")
    except re.error as error:
        msg = f"option addressPattern={text!r}: must be a regular expression for whole names: {error}"
        raise ConfigError(msg) from None
    return text


def _bound(given: Given, which: str) -> Bound | None:
    offsets, times = f"{which}Offsets", f"{which}Timestamp"
    if given.has(offsets) and given.has(times):
        given.refuse(f"options {offsets} and {times}: only one of them may be given")
        return None
    if given.has(times):
        text = given.required(times, TIMES)
        return given.attempt(lambda: read_times(times, text), None)
    if given.has(offsets):
        text = given.required(offsets, OFFSETS)
        return given.attempt(lambda: read_offsets(offsets, text), None)
    return None
