"""What a side of a staged stall says when it is asked who the others wait for, and what is true."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

from rstreams import Connection, Node
from rstreams.culprits import WaitTree

Answers = Callable[[], "Awaitable[Answer]"]

WITHIN_S: Final = 3.0
"""How long an answer may take, in seconds."""

MOST_GAP_S: Final = 1.0
"""How long an item may take beside a stall, in seconds: far more than it takes, because the machine may be busy."""

MOST_TEXT: Final = 100_000
"""The most characters that a side may explain, whatever its peers say."""


@dataclass(frozen=True)
class Truth:
    """The culprit that was staged.

    Attributes:
        kind: What kind of culprit it is: a key of `rstreams.culprits.KINDS`.
        name: A part of its name: a container, an address, a user.
        also: What the sentence must have besides.
    """

    kind: str
    name: str
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """What one side says.

    Attributes:
        kind: The kind of the culprit; "" if it names none.
        name: Its name.
        sentence: The sentence about it, and who says it.
        text: All that the side explains.
        gap_s: Of programs beside the stall, which have nothing to explain: the longest time without an item.
    """

    kind: str = ""
    name: str = ""
    sentence: str = ""
    text: str = ""
    gap_s: float | None = None

    @classmethod
    def of(cls, tree: WaitTree) -> Answer:
        """Return what a tree says."""
        culprit = tree.culprit
        if culprit is None:
            return cls(text=str(tree))
        return cls(culprit.kind, culprit.name, str(culprit), str(tree))

    def as_dict(self) -> dict[str, Any]:
        """Return it as a line of JSON has it."""
        return asdict(self)

    def is_right(self, truth: Truth) -> bool:
        """Tell whether it names the culprit, in one sentence with its name in it, or has not noticed the stall."""
        if self.gap_s is not None:
            return self.gap_s < MOST_GAP_S
        if "\n" in self.sentence or not self.sentence.isprintable() or len(self.text) > MOST_TEXT:
            return False
        named = self.kind == truth.kind and truth.name in self.name
        return named and all(each in self.sentence for each in (truth.name, *truth.also))


def of_connection(connection: Connection) -> Answers:
    """Return what asks the process of a connection."""

    async def answer() -> Answer:
        return Answer.of(await connection.explain_across(within_s=WITHIN_S))

    return answer


def of_node(node: Node) -> Answers:
    """Return what asks the process of a node."""

    async def answer() -> Answer:
        return Answer.of(await node.explain_across(within_s=WITHIN_S))

    return answer
