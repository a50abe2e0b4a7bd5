"""A subscriber that checks the rules of each signal, and does something inside of each `on_next`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from random import Random
from typing import Any

__all__ = ["Strict"]


class Strict(ABC):
    """A subscriber that notes which rules were broken, and does `act` inside of each `on_next`.

    Attributes:
        got: Its items.
        asked: How many it has requested.
        end: "complete", or the error; None before.
        left: Whether it has cancelled.
        wrong: The rules that were broken.
    """

    def __init__(self, random: Random, *, requests: tuple[int, ...]) -> None:
        self._random = random
        self._requests = requests  # what it may ask for in on_subscribe
        self._inside = ""
        self._subscription: Any = None
        self.got: list[Any] = []
        self.asked = 0
        self.end: object = None
        self.left = False
        self.wrong: list[str] = []

    @abstractmethod
    def act(self) -> None:
        """Do something inside of `on_next`."""

    @property
    def here(self) -> bool:
        return not self.left and self.end is None

    def on_subscribe(self, subscription: Any) -> None:  # noqa: ANN401
        self._enter("on_subscribe")
        self._subscription = subscription
        self._inside = ""  # 3.2: it may request here, and get the items here
        self.request(self._random.choice(self._requests))

    def on_next(self, item: Any) -> None:  # noqa: ANN401
        self._enter("on_next")
        self.got.append(item)
        if len(self.got) > self.asked:
            self.wrong.append("1.1: more than was requested")
        self.act()
        self._inside = ""

    def on_error(self, error: BaseException) -> None:
        self._enter("on_error")
        self.end = error
        self._inside = ""

    def on_complete(self) -> None:
        self._enter("on_complete")
        self.end = "complete"
        self._inside = ""

    def request(self, n: int) -> None:
        if n and self.here:
            self.asked += n
            self._subscription.request(n)

    def leave(self) -> None:
        if self.here:
            self.left = True
            self._subscription.cancel()

    def _enter(self, signal: str) -> None:
        if self._inside:
            self.wrong.append(f"1.3: {signal} inside of {self._inside}")
        if self.end is not None:
            self.wrong.append(f"1.7: {signal} behind the end")
        if (signal == "on_subscribe") != (self._subscription is None):
            self.wrong.append(f"1.9: {signal}")
        self._inside = signal
