"""The twelve staged stalls: who plays, and the culprit that each side and an alert must name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.stalls.answers import Truth


@dataclass(frozen=True)
class Staging:
    """A stall to be staged.

    Attributes:
        title: Its name in the table.
        truth: The culprit.
        node: The function in `nodes`.
        publisher: The function in `clients` that is its publisher.
        consumer: The function in `clients` that is its consumer; with a dot, that of another module; "" for none.
        alert: The name of the alert that must hold, and labels of it.
        silent: The parts that cannot answer: another library, or a process that is stopped.
        stopped: A part that is stopped (SIGSTOP) when all play.
        others: Further parts, each a function in `clients`.
        small_disk: Whether the node has a full disk of its own.
    """

    title: str
    truth: Truth
    node: str
    publisher: str
    consumer: str
    alert: tuple[str, Mapping[str, str]]
    silent: tuple[str, ...] = ()
    stopped: str = ""
    others: tuple[str, ...] = ()
    small_disk: bool = False

    @property
    def functions(self) -> list[str]:
        """The functions of its parts, the node's first."""
        clients = (self.publisher, self.consumer, *self.others)
        return [f"nodes.{self.node}", *(each if "." in each else f"clients.{each}" for each in clients if each)]

    def disk(self, folder: Path, function: str) -> Path | None:
        """Return where a part has its small disk; None if it has none."""
        return folder / "disk" if self.small_disk and function == self.functions[0] else None


ORDERS = {"address": "orders"}

STAGINGS = (
    # Spark takes longest to start.
    Staging(
        "Spark trigger too slow",
        Truth("slow_trigger", "orders"),
        "orders",
        "shop",
        "spark_job.slow_trigger",
        ("ConsumersAreStuck", ORDERS),
        silent=("spark_job.slow_trigger",),
    ),
    Staging("slow handler", Truth("slow_handler", "worker"), "orders", "shop", "slow", ("ConsumersAreStuck", ORDERS)),
    Staging(
        "poison message", Truth("poison_message", "orders"), "orders", "shop", "failing", ("PoisonMessage", ORDERS)
    ),
    Staging(
        "full dead letters",
        Truth("queue_full", "dead"),
        "dead_letters",
        "shop",
        "rejecting",
        ("DeadLettersHaveNoRoom", ORDERS),
    ),
    Staging(
        "foreign peer without credit",
        Truth("no_credit", "foreign"),
        "orders",
        "shop",
        "foreign",
        ("ConsumersAskForNothing", ORDERS),
        silent=("clients.foreign",),
    ),
    Staging(
        "paused consumer", Truth("paused", "worker"), "orders", "shop", "paused", ("ConsumersAskForNothing", ORDERS)
    ),
    Staging(
        "small window, long network",
        Truth("small_window", "worker"),
        "orders",
        "shop",
        "far_away",
        ("WindowIsTooSmall", ORDERS),
    ),
    Staging(
        "full disk",
        Truth("disk_full", "store"),
        "small_disk",
        "shop_that_tries_again",
        "",
        ("DiskIsFull", {}),
        small_disk=True,
    ),
    Staging(
        "blocked thread",
        Truth("silent", "worker"),
        "orders",
        "shop",
        "blocked",
        ("ConsumersAreStuck", ORDERS),
        silent=("clients.blocked",),
    ),
    Staging(
        "two streams in a circle",
        Truth("circle", "left"),
        "circle",
        "from_left",
        "from_right",
        ("ConsumersAreStuck", {"address": "left"}),
    ),
    Staging(
        "rate limit",
        Truth("rate_limit", "shop"),
        "limited",
        "shop_with_password",
        "quick_with_password",
        ("UserIsLimited", {}),
    ),
    Staging(
        "dead group member",
        Truth("silent", "dead"),
        "log",
        "appender",
        "dead",
        ("GroupMemberIsStuck", {"address": "events", "group": "billing"}),
        silent=("clients.dead",),
        stopped="clients.dead",
        others=("living",),
    ),
)
