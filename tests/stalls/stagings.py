"""The twelve staged stalls, and some that try `$explain` itself: who plays, and whom each side must name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.stalls.answers import Truth


@dataclass(frozen=True)
class Staging:
    """A stall to be staged.

    Attributes:
        title: Its name in the table.
        truth: The culprit.
        parts: Its processes: for each the module and function, and arguments. The first one is the node.
        alert: The name of the alert that must hold, or two with "or" between; "" for none.
        labels: Labels that the alert must have.
        silent: The parts that cannot answer: another library, or a process that is stopped.
        stopped: A part that is stopped (SIGSTOP) when all play.
        nodes: How many of the first parts are nodes: each is started when the one before it plays.
        small_disk: Whether the node has a disk of its own, which is full.
    """

    title: str
    truth: Truth
    parts: tuple[str, ...]
    alert: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    silent: tuple[str, ...] = ()
    stopped: str = ""
    nodes: int = 1
    small_disk: bool = False

    def disk(self, folder: Path, part: str) -> Path | None:
        """Return where a part has its small disk; None if it has none."""
        return folder / "disk" if self.small_disk and part == self.parts[0] else None


ORDERS: Final = {"address": "orders"}
NODE: Final = "nodes.orders"
SHOP: Final = "clients.shop"
SPARK: Final = "spark_job.slow_trigger"

STALLS: Final = (
    Staging(  # the first one, because Spark takes longest to start
        "Spark trigger too slow",
        Truth("slow_trigger", "orders"),
        (NODE, SHOP, SPARK),
        "ConsumersAreStuck",
        ORDERS,
        silent=(SPARK,),
    ),
    Staging("slow handler", Truth("slow_handler", "worker"), (NODE, SHOP, "clients.slow"), "ConsumersAreStuck", ORDERS),
    Staging(
        "poison message", Truth("poison_message", "orders"), (NODE, SHOP, "clients.failing"), "PoisonMessage", ORDERS
    ),
    Staging(
        "full dead letters",
        Truth("queue_full", "dead"),
        ("nodes.dead_letters", SHOP, "clients.rejecting"),
        "DeadLettersHaveNoRoom",
        ORDERS,
    ),
    Staging(
        "foreign peer without credit",
        Truth("no_credit", "foreign"),
        (NODE, SHOP, "clients.foreign"),
        "ConsumersAskForNothing",
        ORDERS,
        silent=("clients.foreign",),
    ),
    Staging(
        "paused consumer",
        Truth("paused", "worker"),
        (NODE, SHOP, "clients.paused"),
        "ConsumersAreStuck or ConsumersAskForNothing",
        ORDERS,
    ),
    Staging(
        "small window, long network",
        Truth("small_window", "worker"),
        (NODE, SHOP, "clients.far_away"),
        "ConsumersAskTooSeldom",
        ORDERS,
    ),
    Staging(
        "full disk",
        Truth("disk_full", "store"),
        ("nodes.small_disk", "clients.shop_that_tries_again"),
        "DiskIsFull",
        small_disk=True,
    ),
    Staging(
        "blocked thread",
        Truth("silent", "worker"),
        (NODE, SHOP, "clients.blocked"),
        "ConsumersAreStuck",
        ORDERS,
        silent=("clients.blocked",),
    ),
    Staging(
        "two streams in a circle",
        Truth("circle", "queue", ("left", "right")),
        ("nodes.circle", "clients.doubles left right", "clients.doubles right left", "clients.first left"),
        "ConsumersAreStuck",
        {"address": "left"},
        silent=("clients.first left",),
    ),
    Staging(
        "rate limit",
        Truth("rate_limit", "shop"),
        ("nodes.limited", "clients.shop_with_password", "clients.quick_with_password"),
        "UserIsLimited",
    ),
    Staging(
        "dead group member",
        Truth("silent", "dead"),
        ("nodes.log", "clients.appender", "clients.member living", "clients.member dead", "clients.operator events"),
        "GroupIsStuck",
        {"address": "events", "group": "billing"},
        silent=("clients.appender", "clients.member living", "clients.member dead"),  # the first two do not wait
        stopped="clients.member dead",
    ),
)

BESIDE: Final = "clients.beside"

HOSTILE: Final = {
    "mute": Truth("silent", "hostile-mute"),
    # A lie cannot be known for one, but who tells it can. Of nonsense nothing is taken.
    "lying": Truth("slow_handler", "innocent", ("through hostile-lying",)),
    **{answer: Truth("no_credit", f"hostile-{answer}") for answer in ("nonsense", "deep", "nested", "wide", "huge")},
}

TRIALS: Final = (
    Staging(
        "circle of two nodes",
        Truth("circle", "queue", ("left", "right")),
        (
            "nodes.one_way left",
            "nodes.other_way right",
            "clients.bridge",
            "clients.bridge back",
            "clients.first left",
            BESIDE,
        ),
        silent=("clients.first left",),
        nodes=2,
    ),
    *(
        Staging(
            f"hostile peer: {answer}",
            truth,
            (NODE, SHOP, f"hostile.play {answer}", BESIDE),
            silent=(f"hostile.play {answer}",),
        )
        for answer, truth in HOSTILE.items()
    ),
)
"""Stalls that try `$explain` itself; a pair of programs beside them must not notice."""
