"""Who waits for whom, as a tree, and the culprit: the one end that all others wait for.

Theory of operation. A part of the tree is something that waits: a stream, the end of a link, an address of a node. Its
branches are the parts that it waits for. A part may blame: it then knows a reason of its own. The culprit is found by
following the branches down to the parts that wait for nothing else: whoever is asked further away knows better. A blame
counts only if no branch below it has one.

Trees go over connections. What comes from a peer is read by `WaitTree.from_dict`, which bounds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, NoReturn, Protocol, runtime_checkable

__all__ = ["KINDS", "Culprit", "Tells", "WaitTree"]

KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "circle": "streams wait for each other in a circle",
        "disk_full": "the store of a node cannot write: its disk is full, or fails",
        "poison_message": "the message in front of a queue fails at each attempt",
        "paused": "the valve of a consumer is paused",
        "slow_handler": "a handler, or the body of a loop, has an item and is not through with it",
        "slow_trigger": "a Spark query has not taken its next batch",
        "rate_limit": "a user sends or receives as fast as its limit allows",
        "window_closed": "a peer has closed the window of the session",
        "queue_full": "an address has no room, and nobody takes from it",
        "no_consumer": "an address has messages, and nobody takes from it",
        "away": "the connection of a link is lost, and has not come back",
        "silent": "a process does not answer: it is stopped, its thread is blocked, or the network is gone",
        "slow_consumer": "a consumer does not settle the messages that it has, and tells nothing more",
        "no_credit": "a peer grants no credit, and tells nothing more",
        "small_window": "a window is too small for the time that the network takes",
        "publisher_idle": "a publisher may send, and has nothing to send",
        "no_publisher": "nobody publishes to an address whose consumers wait",
        "unknown": "a kind that this version does not know",
    }
)
"""The kinds of culprits, each with its meaning. If several are found, the first kind of this table is told."""

MOST_PARTS: Final = 256
"""The most parts of a tree that comes from a peer, or goes to one."""

MOST_DEPTH: Final = 64
"""The most parts of such a tree below each other."""

MOST_TEXT: Final = 300
"""The most characters of a text in such a tree."""

_RANKS: Final = {kind: rank for rank, kind in enumerate(KINDS)}


@dataclass(frozen=True, slots=True)
class Culprit:
    """The end that all others wait for.

    Attributes:
        kind: What it is: a key of `KINDS`.
        sentence: The same in one sentence, for people.
        name: Who it is: a container, an address, a user, or a store.
        since: Since when, by the clock of the process that tells; None if that is not known.
        where: The process that tells: its container id; "" if that is not known.
    """

    kind: str
    sentence: str
    name: str = ""
    since: datetime | None = None
    where: str = ""

    def __str__(self) -> str:
        """Return the sentence, and where it was said."""
        return f"{self.sentence} (told by {self.where})" if self.where else self.sentence

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values for JSON; `since` is a text as in ISO 8601, or None."""
        since = None if self.since is None else self.since.isoformat()
        return {"kind": self.kind, "sentence": self.sentence, "name": self.name, "since": since, "where": self.where}

    @classmethod
    def from_dict(cls, value: object) -> Culprit:
        """Return what `as_dict` has told, perhaps at a peer.

        Errors: `ValueError` if it is anything else.
        """
        told = _fields(value)
        kind, since = _text(told, "kind"), told.get("since")
        when = None
        if since is not None:
            if not isinstance(since, str) or len(since) > MOST_TEXT:
                _refuse("since", since)
            when = datetime.fromisoformat(since)
            when = when.replace(tzinfo=UTC) if when.tzinfo is None else when
        texts = {name: _text(told, name) for name in ("sentence", "name", "where")}
        return cls(kind if kind in KINDS else "unknown", since=when, **texts)


@runtime_checkable
class Tells(Protocol):
    """A subscriber of your own that knows why it takes no more items: `explain_across` asks it."""

    def culprit(self) -> Culprit | None:
        """Return the reason; None: there is none. An empty `name` stands for this process, and `where` is filled in."""
        ...


@dataclass(frozen=True, slots=True)
class WaitTree:
    """Something that waits, with the parts that it waits for; `print` shows it as a tree.

    Attributes:
        kind: What it is: "stream", "link", "address", "node", "connection" or "peer".
        name: Its name.
        state: What it does, or waits for, in words.
        blame: The reason that it knows itself; it counts only if no branch has one.
        waits_for: The parts that it waits for.
        end: The end of a link of this process, at whose peer the tree goes on. It is not told to others.
    """

    kind: str
    name: str
    state: str = ""
    blame: Culprit | None = None
    waits_for: tuple[WaitTree, ...] = ()
    end: Any = field(default=None, compare=False, repr=False)

    @property
    def culprit(self) -> Culprit | None:
        """The end that all others wait for; None if nothing waits, or nobody knows."""
        found = [culprit for part in self.waits_for if (culprit := part.culprit) is not None]
        return first_of(found) if found else self.blame

    def __str__(self) -> str:
        """Return the parts as lines, each below the part that waits for it, and the culprit."""
        culprit = self.culprit
        lines = [f"{'  ' * depth}{part.name}{f': {part.state}' if part.state else ''}" for depth, part in self.parts()]
        return "\n".join(lines if culprit is None else [*lines, f"-> {culprit}"])

    def parts(self, depth: int = 0) -> Iterator[tuple[int, WaitTree]]:
        """Yield each part, with the number of parts above it."""
        yield depth, self
        for part in self.waits_for:
            yield from part.parts(depth + 1)

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values for JSON: `culprit`, and `parts`, a list in the order in which `print` shows them.

        Each part has its `depth`, 0 for the first one, and `kind`, `name`, `state` and `blame`.
        """
        culprit = self.culprit
        return {
            "culprit": None if culprit is None else culprit.as_dict(),
            "parts": [
                {
                    "depth": depth,
                    "kind": part.kind,
                    "name": part.name,
                    "state": part.state,
                    "blame": None if part.blame is None else part.blame.as_dict(),
                }
                for depth, part in self.parts()
            ],
        }

    @classmethod
    def from_dict(cls, value: object) -> WaitTree:
        """Return what `as_dict` has told, perhaps at a peer: texts are cut, and control characters replaced.

        Errors: `ValueError` if it is anything else, too deep, or has too many parts.
        """
        rows = _fields(value).get("parts")
        if not isinstance(rows, list) or not rows or len(rows) > MOST_PARTS:
            msg = f"parts must be a list of 1 to {MOST_PARTS}"
            raise ValueError(msg)
        parts = [(_depth(row), _part(row)) for row in rows]
        return _joined(parts)

    def within_bounds(self) -> WaitTree:
        """Return it as far as `from_dict` takes it; what is cut off is counted, and its culprit stays."""
        parts = list(self.parts())
        kept = [(depth, part) for depth, part in parts if depth < MOST_DEPTH][: MOST_PARTS - 1]
        if len(kept) == len(parts):
            return _joined(parts)
        cut = _joined([*kept, (1, WaitTree("peer", f"and {len(parts) - len(kept)} more"))])
        return cut if cut.culprit == self.culprit else replace(self, blame=self.culprit, waits_for=(), end=None)


def first_of(culprits: Sequence[Culprit]) -> Culprit:
    """Return the one to tell: by its kind, and then the one that lasts longest."""
    return min(culprits, key=lambda each: (_RANKS[each.kind], _began(each)))


def culprits_of(trees: Sequence[WaitTree]) -> tuple[Culprit, ...]:
    """Return the culprits of several trees, each once, the one to tell first in front."""
    found = {culprit for tree in trees if (culprit := tree.culprit) is not None}
    return tuple(sorted(found, key=lambda each: (_RANKS[each.kind], _began(each), each.sentence)))


def _began(culprit: Culprit) -> float:
    return float("inf") if culprit.since is None else culprit.since.timestamp()


def shown(text: str) -> str:
    """Return a text of unknown origin for people: not too long, and without control characters."""
    cut = text if len(text) <= MOST_TEXT else f"{text[: MOST_TEXT - 3]}..."
    return (
        cut
        if cut.isprintable()
        else "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in cut)
    )


def _joined(parts: Sequence[tuple[int, WaitTree]]) -> WaitTree:
    """Return the tree of parts that come with their depths."""
    branches: list[list[WaitTree]] = [[]]  # those that wait for the part above them, by depth; read from the end
    for depth, part in reversed(parts):
        while len(branches) < depth + 2:
            branches.append([])
        below = tuple(reversed(branches.pop())) if len(branches) == depth + 2 else ()
        branches[depth].append(replace(part, waits_for=below, end=None))
    if len(branches) != 1 or len(branches[0]) != 1:
        msg = "a part is not below the one that waits for it"
        raise ValueError(msg)
    return branches[0][0]


def _part(row: object) -> WaitTree:
    told = _fields(row)
    blame = told.get("blame")
    kind, name, state = (_text(told, each) for each in ("kind", "name", "state"))
    return WaitTree(kind, name, state, None if blame is None else Culprit.from_dict(blame))


def _depth(row: object) -> int:
    depth = _fields(row).get("depth")
    if not isinstance(depth, int) or not 0 <= depth < MOST_DEPTH:
        msg = f"the depth of a part must be 0 to {MOST_DEPTH - 1}"
        raise ValueError(msg)
    return depth


def _fields(value: object) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        _refuse("a part", value)
    return value


def _text(told: Mapping[Any, Any], name: str) -> str:
    value = told.get(name, "")
    if not isinstance(value, str):
        _refuse(name, value)
    return shown(value)


def _refuse(what: str, value: object) -> NoReturn:
    msg = f"{what} must not be a {type(value).__name__}"
    raise ValueError(msg)


def __dir__() -> list[str]:
    return __all__
