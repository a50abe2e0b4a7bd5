"""The sending end of a link that this side attached: it says what it waits for, and logs a long wait once.

A peer that grants no credit is not an error: that is backpressure. Nor is a peer that closes the window of the session,
as a broker does while it is short of memory or disk. But the user of a program that waits for ever needs the reason.
While items flow nothing is counted, and no clock is read. A wait begins in the turn that finds no credit left, or the
window closed. One delayed call of the connection looks at it again.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, Protocol, TypeVar, runtime_checkable
from weakref import ref

import trio

from rstreams import _machine
from rstreams._events.event import LogEvent
from rstreams._events.table import (
    LINK_ANSWERED,
    LINK_CREDIT_AGAIN,
    LINK_GIVEN_UP,
    LINK_NO_CREDIT,
    LINK_UNANSWERED,
    LINK_WINDOW_OPEN_AGAIN,
    LINK_WINDOW_SHUT,
)
from rstreams.abc import Publisher
from rstreams.errors import AnswerTimeout
from rstreams.protocol.driver import Driver
from rstreams.protocol.frames import Attach, Detach, Flow, Lost
from rstreams.protocol.link import Link
from rstreams.protocol.options import SendingOptions
from rstreams.protocol.sender import LinkSubscriber
from rstreams.protocol.states import State

T = TypeVar("T")


TOLD_AFTER_S: Final = 10.0
"""How long a wait may last before the log says so, in seconds."""

TOLD_AGAIN_AFTER_S: Final = 60.0
"""The same for later waits of the same link, in seconds: with a slow consumer a publisher waits again and again."""

SOON_S: Final = 0.001
"""By how many seconds a wait may be shorter and still be logged."""


@runtime_checkable
class Waiting(Protocol):
    """A publisher that is given its items one by one, and knows how many of them wait."""

    def when_waiting(self, tell: Callable[[], None]) -> None:
        """Have `tell` called whenever an item begins to wait."""
        ...

    @property
    def waiting(self) -> int:
        """How many items wait for credit."""
        ...


class PublishingEnd(LinkSubscriber[T]):
    """A `LinkSubscriber` that tells when the peer lets it wait."""

    def __init__(
        self,
        publisher: Publisher[T],
        options: SendingOptions,
        on_finished: Callable[[BaseException | None], None],
        where: Callable[[], str],
    ) -> None:
        """Send the items of `publisher`, which may be `Waiting`; `where` says the address and the peer."""
        super().__init__(publisher, options, on_finished)
        self._where = where
        self._calls: Waiting | None = publisher if isinstance(publisher, Waiting) else None
        if self._calls is not None:
            self._calls.when_waiting(self._on_waiting)
        self._since: float | None = None  # when the wait began, if it waits
        self._shut_at: datetime | None = None  # the time of day when the wait began, if it is for the session's window
        self._told = False  # whether the log tells of this wait
        self._tell_after_s = TOLD_AFTER_S
        self._looks_again = False  # a delayed call is under way

    # signals of the link, and when a wait begins and ends

    def bind(self, name: str, driver: Driver) -> Link:
        """Make the link; from now on it waits for the peer's attach."""
        link = super().bind(name, driver)
        self._forget()
        self._looks_again = False
        self._begin()
        return link

    def on_attach(self, frame: Attach) -> None:
        """The peer's answer: the wait for it is over."""
        self._over(LINK_ANSWERED)
        super().on_attach(frame)

    def on_flow(self, frame: Flow) -> None:
        """Credit has changed: if there is some, the wait for credit is over."""
        if self._since is not None and frame.credit > 0 and self._shut_at is None:
            self._over(LINK_CREDIT_AGAIN)
        super().on_flow(frame)

    def on_detach(self, frame: Detach) -> None:
        """The link ends: nothing waits for credit."""
        self._forget()
        super().on_detach(frame)

    def on_lost(self, frame: Lost) -> None:
        """The link is lost: the connection logs that itself, or it lives, and does not answer."""
        self._forget()
        super().on_lost(frame)
        if isinstance(frame.error, AnswerTimeout) and not self.wants_link and self._publisher.error is None:
            link = self._where()  # all its items are settled: nobody gets this as an error
            LINK_GIVEN_UP.tell(link, why=frame.error, link=link)

    def work(self) -> None:
        """Do the work that has become possible, and see whether credit or the session's window is missing for more."""
        if self._since is not None and self.state is State.ATTACHED:
            if self._shut_at is None:
                if self._driver.is_shut():
                    self._forget()  # the wait before was another one
            elif not self.is_shut:
                self._over(LINK_WINDOW_OPEN_AGAIN)
        super().work()
        if self._since is None:
            self._look()

    def _on_waiting(self) -> None:
        """Hear that an item begins to wait."""
        self._look()
        link = self._link
        if not self.blocked.lasts and link is not None and link.state is State.ATTACHED:
            self._note_blocked(link.driver)

    def _publisher_waits(self) -> bool:
        return self._calls is None or self._calls.waiting > 0

    def _look(self) -> None:
        """Begin a wait, if there is one; a window that is used up is noticed later, because that takes longer."""
        link = self._link
        if self._since is None and link is not None and link.state is State.ATTACHED:
            if self._waits_for_peer(link.driver):
                self._begin()
            elif not self._looks_again:
                self._look_again(self._tell_after_s)

    def _waits_for_peer(self, driver: Driver) -> bool:
        """Tell whether there is something to send, and credit or the window of the session is missing for it."""
        if driver.is_shut():
            return self._something_waits()
        return driver.credit() <= 0 and self.wants_credit

    def _something_waits(self) -> bool:
        """Tell whether there is something to send, here or in the engine."""
        return self.wants_credit or self._driver.queued() > 0

    @property
    def wants_credit(self) -> bool:
        """Whether there is something to send, or the publisher may have something."""
        items = self._items
        if self._calls is not None and not items.payloads:
            return self._calls.waiting > 0
        return bool(items.payloads) or not self._publisher.completed

    def _begin(self) -> None:
        self._since = trio.current_time()
        self._shut_at = _now() if self.state is State.ATTACHED and self._driver.is_shut() else None
        self._look_again(self._tell_after_s)

    def _look_again(self, delay_s: float) -> None:
        if self._looks_again:
            return
        self._looks_again = True
        me = ref(self)  # the call does not keep a link that has ended

        def call() -> None:
            end = me()
            if end is not None:
                end._tell()

        self._driver.call_after(delay_s, call)

    def _tell(self) -> None:
        """Say in the log that it waits, if it has for long enough."""
        self._looks_again = False
        self.look_at_window()
        waits_for_window = self.is_shut and self._something_waits()
        if self._since is None and waits_for_window:
            self._since = trio.current_time()
        if self._since is None or self._told:
            return
        if self.state is State.ATTACHED and not waits_for_window and not self._waits_for_peer(self._driver):
            self._forget()  # the items that waited have been given up
            return
        waited_s = trio.current_time() - self._since
        if not waits_for_window:
            self._shut_at = None
        elif self._shut_at is None:
            self._shut_at = _now() - timedelta(seconds=waited_s)
        left_s = self._tell_after_s - waited_s
        if left_s > SOON_S:  # a smaller rest may be a rounding error of the clock
            self._look_again(left_s)
            return
        self._told = True
        link = self._where()
        if self._shut_at is not None:
            since = _time(self._shut_at)
            LINK_WINDOW_SHUT.tell(link, link=link, since=since, seconds=waited_s, waiting=self._what_waits())
        elif self.state is State.ATTACHED:
            LINK_NO_CREDIT.tell(link, link=link, seconds=waited_s, waiting=self._what_waits())
        else:
            LINK_UNANSWERED.tell(link, link=link, seconds=waited_s, waiting=self._what_waits())

    def _over(self, what: LogEvent) -> None:
        if self._told and self._since is not None:
            link = self._where()
            what.tell(link, link=link, seconds=trio.current_time() - self._since)
            self._tell_after_s = TOLD_AGAIN_AFTER_S
        self._forget()

    def _forget(self) -> None:
        self._since = None
        self._shut_at = None
        self._told = False

    # for `explain`

    def stall(self) -> str:
        """Say what the link waits for."""
        return f"link to {self._where()}: {self.waits_for}"

    @property
    def waits_for(self) -> str:
        """What the link waits for, without its address."""
        waited_s = 0.0 if self._since is None else trio.current_time() - self._since
        for_long = f" for {waited_s:.0f} s" if waited_s >= 1 else ""
        if self.state is State.ATTACH_SENT:
            return f"the peer has not answered the attach{for_long}"
        if self.state is State.ATTACHED:
            return self._waits_attached(waited_s, for_long)
        return "it waits to be attached" if self.wants_link else "it has ended"

    def _waits_attached(self, waited_s: float, for_long: str) -> str:
        if self.is_shut and self._something_waits():
            since = "" if self._shut_at is None else f" since {_time(self._shut_at)} ({waited_s:.0f} s)"
            return f"the peer's session window is closed{since}; {self._what_waits()}"
        credit = self._driver.credit()
        if credit <= 0 and self.wants_credit:
            return f"no credit from the peer{for_long}; {self._what_waits()}"
        held_back = super().waits_for
        if credit > 0 and held_back:
            return f"it {held_back}"
        if self.unsettled and (credit <= 0 or self._publisher.completed):
            return f"{_number(self.unsettled, 'item')} sent and not settled yet"
        return f"the peer takes {_number(max(credit, 0), 'more delivery', 'more deliveries')}"

    def _what_waits(self) -> str:
        held = len(self._items.payloads) + (self._driver.queued() if self.is_shut else 0)
        if self._calls is not None:
            count = held + self._calls.waiting
        elif held:
            count = held
        else:
            return "the stream that is published waits"
        return f"{_number(count, 'item')} wait{'s' if count == 1 else ''}"


def _number(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


def _now() -> datetime:
    return _machine.today_utc().astimezone()


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}"
