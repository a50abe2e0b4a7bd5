"""What a side of a staged stall says when it is asked who the others wait for, and what is true."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any

from rstreams import Connection, Node


@dataclass(frozen=True)
class Truth:
    """The culprit that was staged.

    Attributes:
        kind: What kind of culprit it is: a key of `rstreams.culprits.KINDS`.
        name: A part of its name: a container, an address, a user.
    """

    kind: str
    name: str


@dataclass(frozen=True)
class Answer:
    """What one side says.

    Attributes:
        kind: The kind of the culprit; "" if it names none.
        name: Its name.
        sentence: The sentence about it.
        text: All that the side explains.
    """

    kind: str = ""
    name: str = ""
    sentence: str = ""
    text: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return it as a line of JSON has it."""
        return asdict(self)

    def is_right(self, truth: Truth) -> bool:
        """Tell whether it names the culprit, in one sentence, with its name in it."""
        return self.kind == truth.kind and truth.name in self.name and truth.name in self.sentence


def of_connection(connection: Connection) -> Callable[[], Awaitable[Answer]]:
    """Return what asks the process of a connection."""

    async def answer() -> Answer:
        return Answer(text=str(connection.explain()))

    return answer


def of_node(node: Node) -> Callable[[], Awaitable[Answer]]:
    """Return what asks the process of a node."""

    async def answer() -> Answer:
        return Answer(text=str(node.explain()))

    return answer
