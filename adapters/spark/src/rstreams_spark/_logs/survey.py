"""The logs of a query, as its driver sees them: which partitions there are, and where each begins and ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final, TypeVar

import trio

from rstreams.errors import ConfigError, RStreamsError
from rstreams_spark._connections import SendingConnection, connection_for, user_of
from rstreams_spark._log import MESSAGES_GONE, say
from rstreams_spark._logs.bounds import Bound, Place
from rstreams_spark._logs.logs import Logs, Tail
from rstreams_spark._logs.plan import Positions, Range, order
from rstreams_spark._logs.ranges import BEHIND_WAIT_S, LogRange
from rstreams_spark._logs.tails import logs_of
from rstreams_spark._options import SourceOptions, hide_credentials
from rstreams_spark.errors import SourceFailed

V = TypeVar("V")

LOOK_AGAIN_S: Final = 0.1
"""How long to wait for new messages before Spark is told that there are none."""

_SHOWN: Final = 20


class Survey:
    """Asks the peer about the logs of a query.

    Context: One thread that is not the connection's; calls block. A copy that was pickled has no connection.
    """

    def __init__(self, options: SourceOptions) -> None:
        """Connect when the first question is asked."""
        self._options = options
        self._peer = options.peer
        self._connection: SendingConnection | None = None
        self._logs: Logs | None = None
        self._tails: dict[str, Tail] = {}
        self._made_anew: set[str] = set()

    @property
    def where(self) -> str:
        """Names the source in messages."""
        return f"rstreams source, address {self._options.address!r} at {self._peer}"

    @property
    def _names(self) -> tuple[str, ...]:
        """The logs that the options name."""
        return self._options.log.addresses or (self._options.address,)

    def __getstate__(self) -> dict[str, object]:
        """Return the state of a copy, which asks nothing: without passwords."""
        return {"_options": self._options.without_secrets()}

    def kind(self) -> str | None:
        """Return what is at the address: "log", another kind, or None if the peer does not tell."""

        async def ask(logs: Logs) -> str | None:
            return await logs.kind_of(self._options.address)

        return None if self._connected() is None else self._run(ask)

    def tails(self) -> dict[str, Tail]:
        """Return the partitions of the logs as they are now, by their keys.

        Errors: `ConfigError` if there is none.
        """
        found = self._run(self._ask)
        if not found and not self._tails:
            msg = f"{self.where}: {self._options.log.none_found(self._names)}"
            raise ConfigError(msg)
        self._tails = found
        return found

    def news_since(self, begin: Positions, seen: Positions | None) -> dict[str, Tail]:
        """Return the partitions as they are now; if they have no news, as they are a moment later."""
        tails = self.caught_up(self.tails(), begin)
        if seen is not None and all(max(begin.get(key, 0), tail.first) == tail.end for key, tail in tails.items()):
            self._run(_wait)
            tails = self.caught_up(self.tails(), begin)
        return tails

    def caught_up(self, tails: dict[str, Tail], begin: Positions) -> dict[str, Tail]:
        """Return the partitions; asked for again if one ends before `begin`.

        A replica may lag behind the one that was asked before. It gets `BEHIND_WAIT_S`, once. A log that ends before
        `begin` after that was made anew.
        """
        behind = _behind(tails, begin)
        if behind <= self._made_anew:
            self._made_anew = behind
            return tails
        wait_s = BEHIND_WAIT_S if self._logs is not None and self._logs.has_replicas else 0.0

        async def ask(logs: Logs) -> dict[str, Tail]:
            until = trio.current_time() + wait_s
            while True:
                found = await self._ask(logs)
                if _behind(found, begin) <= self._made_anew or trio.current_time() >= until:
                    return found
                await trio.sleep(LOOK_AGAIN_S)

        self._tails = self._run(ask)
        self._made_anew = _behind(self._tails, begin)
        return self._tails

    async def _ask(self, logs: Logs) -> dict[str, Tail]:
        pattern = self._options.log.pattern
        names = self._names if pattern is None else await logs.matching(pattern)
        tails = {tail.key: tail for tail in await logs.tails(names)}
        return {key: tails[key] for key in sorted(tails, key=order)}

    def places(self, bound: Bound, which: str) -> Positions:
        """Return the offset of each partition where a read begins or ends; of those that `bound` names, if it does.

        Args:
            bound: The places.
            which: "starting" or "ending", for messages.

        Errors: `ConfigError` for a partition that is not there, and an offset that is not there.
        """
        tails = self.tails()
        named: Mapping[str, Place] = bound if isinstance(bound, Mapping) else dict.fromkeys(tails, bound)
        unknown = [key for key in named if key not in tails]
        if unknown:
            raise self._not_these(which, f"has no {_listed(unknown)}")
        wrong: list[str] = []
        made = {key: self._place(tail, named[key], which, wrong) for key, tail in tails.items() if key in named}
        if wrong:
            msg = f"option {which}Offsets: {'; '.join(wrong)}"
            raise ConfigError(msg)
        return made

    def require_all(self, places: Positions, which: str) -> None:
        """Check that there is a place for each partition, as the peer last told them.

        Args:
            places: The places.
            which: "starting" or "ending", for the message.

        Errors: `ConfigError` if not.
        """
        missing = [key for key in self._tails if key not in places]
        if missing:
            raise self._not_these(which, f"also has {_listed(missing)}, which it must name")

    def _not_these(self, which: str, what: str) -> ConfigError:
        name = self._options.log.bound_name(which)
        return ConfigError(f"option {name}: the peer {what}; there are {_listed(self._tails)}")

    def _place(self, tail: Tail, place: Place, which: str, wrong: list[str]) -> int:
        if isinstance(place, str):
            return tail.first if place == "earliest" else tail.end
        if isinstance(place, datetime):
            return self._run(lambda logs: logs.offset_at(tail, place))
        assert isinstance(place, int)
        if place > tail.end or (place < tail.first and self._is_lost(tail, place)):
            if place < tail.first and not self._options.log.fail_on_data_loss:
                return tail.first
            wrong.append(f"{tail.key} has no offset {place}, there are {tail.first} to {tail.end}")
        return place

    def incarnations(self) -> dict[str, str]:
        """Return the incarnation of each partition, as the peer last told them."""
        return {key: tail.incarnation for key, tail in self._tails.items()}

    def anew(self, known: Mapping[str, str], tails: Mapping[str, Tail]) -> set[str]:
        """Return the partitions that are others than those whose incarnations are known."""
        differ = {key for key, tail in tails.items() if known.get(key, tail.incarnation) != tail.incarnation}

        async def ask(logs: Logs) -> set[str]:
            return {key for key in differ if await logs.is_anew(tails[key], known[key])}

        return self._run(ask) if differ else set()

    def lost(self, begin: Positions, tails: Mapping[str, Tail], anew: Collection[str] = ()) -> list[str]:
        """Return what is gone of the messages from `begin` on, in words.

        Args:
            begin: The positions.
            tails: The partitions as they are now.
            anew: Those that were made anew.
        """
        lost = []
        for key, at in begin.items():
            tail = tails.get(key)
            if tail is None:
                lost.append(f"{key} is not there")
            elif key in anew:
                there = f"the new one has {tail.first} to {tail.end - 1}" if tail.end > tail.first else "it is empty"
                lost.append(f"{key} was made anew, and the checkpoint is at {at} of the earlier one; {there}")
            elif tail.end < at:
                lost.append(f"{key} ends at {tail.end}, and the checkpoint is at {at}")
            elif at < tail.first and self._is_lost(tail, at):
                lost.append(f"{key} from offset {at} to {tail.first - 1}")
        return lost

    def _is_lost(self, tail: Tail, at: int) -> bool:
        """Whether messages before the first one are gone for good; in a compacted log they have been replaced."""
        return self._run(lambda logs: logs.has_lost(tail, at))

    def require_logs(self, known: Iterable[str] = ()) -> None:
        """Check that each log of option `addresses` was there when the peer was asked last.

        Args:
            known: Names of logs that have been there before.

        Errors: `ConfigError` if not.
        """
        there = {tail.log for tail in self._tails.values()}.union(known)
        missing = [name for name in self._options.log.addresses if name not in there]
        if missing:
            none = self._options.log.none_found(missing)
            msg = f"{self.where}: {none}; there are {_listed(self._tails)}"
            raise ConfigError(msg)

    def require_names(self, begin: Positions) -> None:
        """Check that the options name the logs of a checkpoint, and that each log they name is there or was there.

        Errors: `ConfigError` if not.
        """
        options = self._options
        if options.log.pattern is not None:
            return
        names = self._names
        read = {key.rpartition("/")[0] for key in begin}
        self.require_logs(read)
        others = sorted(read - set(names))
        if others:
            msg = (
                f"the checkpoint belongs to a query that reads {_listed(others)}, and the options name "
                f"{_listed(names)}: use the checkpoint of these logs, or a new one"
            )
            raise ConfigError(msg)

    def ranges(self, tasks: list[Range], incarnations: Mapping[str, str] | None = None) -> list[LogRange]:
        """Return ranges with all that an executor needs to read them.

        Args:
            tasks: The ranges.
            incarnations: Which log each range is of, as far as it is known; None: the one that is there.

        Errors: `SourceFailed` for a partition that is not there, or was made anew, with failOnDataLoss=true.
        """
        if any(task.key not in self._tails for task in tasks):
            self.tails()
        there = {each.key: self._tails[each.key] for each in tasks if each.key in self._tails}
        anew = self.anew(incarnations or {}, there)
        known = self.incarnations() if incarnations is None else incarnations
        return [self._range(task, known.get(task.key, ""), task.key in anew) for task in tasks]

    def _range(self, task: Range, incarnation: str, is_anew: bool) -> LogRange:  # noqa: FBT001 - of this class alone
        tail = self._tails.get(task.key)
        if tail is not None and not is_anew:
            place = tail.log, tail.number, tail.address
            return LogRange(*place, task.first, task.end, tail.mean_bytes, self._peer, incarnation)
        what = "was made anew" if is_anew else "is not there"
        text = f"{task.key} {what}, and with it offsets {task.first} to {task.end - 1} are gone"
        if self._options.log.fail_on_data_loss:
            msg = (
                f"{self.where}: {text}; there are {_listed(self._tails)}. With option failOnDataLoss=false the query "
                "goes on without them"
            )
            raise SourceFailed(msg)
        if is_anew:
            say(MESSAGES_GONE, self.where, f"{text}. The query goes on without them (option failOnDataLoss=false)")
        log, number = order(task.key)
        return LogRange(log, number, "", task.first, task.end, 0, self._peer)  # its task has no rows

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = self._logs = None

    def _connected(self) -> Logs | None:
        if self._connection is None or not self._connection.is_open:
            try:
                options = replace(self._options, peer=self._peer)
                self._connection = connection_for(options, "source", user_of(options.address), max_message_bytes=None)
            except RStreamsError as error:
                raise SourceFailed(hide_credentials(f"{self.where}: {type(error).__name__}: {error}")) from None
            self._logs = logs_of(self._connection.connection, self._options)
        return self._logs

    def _run(self, ask: Callable[[Logs], Awaitable[V]]) -> V:
        logs = self._connected()
        if logs is None or self._connection is None:
            msg = f"{self.where}: only a node, RabbitMQ 4 and Event Hubs have logs, and the peer is none of them"
            raise ConfigError(msg)
        try:
            return self._connection.run(lambda: ask(logs))
        except (ConfigError, SourceFailed):
            raise
        except RStreamsError as error:
            raise SourceFailed(hide_credentials(f"{self.where}: {type(error).__name__}: {error}")) from None


def _behind(tails: Mapping[str, Tail], begin: Positions) -> set[str]:
    return {key for key, tail in tails.items() if tail.end < begin.get(key, 0)}


async def _wait(_: Logs) -> None:
    await trio.sleep(LOOK_AGAIN_S)


def _listed(names: object) -> str:
    listed = list(names)  # type: ignore[call-overload]
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return ", ".join(map(str, listed[:_SHOWN])) + more
