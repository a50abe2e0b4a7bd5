"""What goes wrong in a world, drawn from its seed as a plan: a list of faults, of which some may be left out."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final, Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal[
    "kill", "writing", "power", "jump", "disk_full", "disk_error",
    "cut", "one_way", "reset", "break", "forget", "hold", "slow", "pieces", "delay",
]  # fmt: skip
"""The kinds of faults; `World.weather` says what each one does."""

OF_PARTS: Final[tuple[Kind, ...]] = ("kill", "writing", "power", "jump", "disk_full", "disk_error")
OF_DISKS: Final[tuple[Kind, ...]] = ("writing", "disk_full", "disk_error")
OF_PAIRS: Final[tuple[Kind, ...]] = ("cut", "one_way", "reset", "break", "forget", "hold", "slow", "pieces", "delay")

SUDDEN: Final[tuple[Kind, ...]] = ("kill", "writing", "power", "reset", "break", "forget")
"""Those that are over at once: what is on its way is lost, and what comes behind it is not stopped."""


class Fault(NamedTuple):
    """One thing that goes wrong.

    Attributes:
        at_s: When, in seconds since the beginning.
        kind: What.
        parts: The part, or the two parts.
        for_s: How long, in seconds.
        draw: A number from 0 to 1, for what else is drawn.
    """

    at_s: float
    kind: Kind
    parts: tuple[str, ...]
    for_s: float
    draw: float

    def __str__(self) -> str:
        """Return it in one line."""
        return f"{self.kind} of {' and '.join(self.parts)} at {self.at_s:.3f} s for {self.for_s:.3f} s"


def drawn(
    random: Random,
    *,
    kinds: Sequence[Kind],
    parts: Sequence[str],
    disks: Sequence[str],
    pairs: Sequence[tuple[str, str]],
    until_s: float,
    most: int,
) -> list[Fault]:
    """Draw a plan, in the order of its times.

    Many worlds have few faults, because most failures need one at the right moment. Connections fail more often than
    parts, because a part that begins again takes a simulation ten times as long.
    """
    places: dict[Kind, list[tuple[str, ...]]] = {}
    for kind in kinds:
        of_parts = disks if kind in OF_DISKS else parts
        places[kind] = list(pairs) if kind in OF_PAIRS else [(part,) for part in of_parts]
    possible: list[Kind] = [kind for kind in kinds if places[kind] for _ in range(1 if kind in OF_PARTS else 3)]
    if not possible:
        return []
    plan = []
    for _ in range(random.choice((0, 1, most // 100, most // 10, most, most))):
        kind = possible[int(random.random() * len(possible))]  # a plan may be long, and this is quicker than `choice`
        place = places[kind][int(random.random() * len(places[kind]))]
        length_s = (0.001, 0.02, 0.3, 2.0)[int(random.random() * 4)] * (0.5 + random.random())
        plan.append(Fault(until_s * random.random() ** 2, kind, place, length_s, random.random()))
    return sorted(plan, key=lambda fault: fault.at_s)
