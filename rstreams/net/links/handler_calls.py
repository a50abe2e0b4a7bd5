"""The handler calls of `Connection.consume`: each item goes to the handler, and the end of the call is its outcome.

Theory of operation. Items wait in an `_Inbox`, each with a claim on it. Workers take them out. A worker is a task that
calls the handler with one item after the other. A handler that does not wait costs no turn of the scheduler. Before a
worker awaits a handler it calls another worker, if items wait, up to the concurrency.

A call that changes context variables ends its worker, and another one takes its place; see `contexts`.

An item whose handler returned at once is only counted, and the link asks how many there are (`Intake.done`). The
other items may end in any order: the worker takes the claim of each.

The end of the stream, and its error too, comes behind the items that came before it: handlers at work come to their end
and settle what they have, for instance while a node is drained. Only a cancellation, and the failure of a handler with
"fail", cut them short. If the connection is lost, the items that no handler has begun with are not begun: they come
again, and their outcomes could not be told.

The inbox asks for as many items at first as handlers may have in hand. A round trip for each item would cost more than
most handlers do. The inbox therefore asks for more, as long as the handlers are quick: for as many items as they would
handle in 5 ms, up to the window. For slow handlers it asks for none ahead, and other consumers get these items.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from typing import Any

import trio

from rstreams import _machine
from rstreams._checks.functions import refuse_unrun
from rstreams._checks.publishers import require_subscription
from rstreams._core.contexts import carrier_here, has_changed
from rstreams._core.demand import SLICE, TURN_S
from rstreams._core.run import Run
from rstreams._core.sight import Asked
from rstreams._core.subscription import ENDED
from rstreams._events.table import HANDLER_FAILED
from rstreams._stages.carrying import in_context
from rstreams._stages.intake import Intake
from rstreams.abc import Event, Hold, Publisher, Subscription
from rstreams.culprits import Culprit
from rstreams.errors import DeliveryFailed, TransportError
from rstreams.net.links.failures import DeadLetters, FailureName
from rstreams.runtime.at_work import AtWork
from rstreams.runtime.ground import TRIO, Ground
from rstreams.sinks.sink import Sink


class Handling:
    """One call of `consume`.

    Context: The task that awaits `of`, and those that it starts.
    """

    def __init__(
        self,
        handler: Callable[[Any], Awaitable[object]] | Callable[[Any], object],
        address: str,
        on_failure: FailureName | DeadLetters,
        at_work: AtWork,
        ground: Ground = TRIO,
        *,
        traced: bool = False,
    ) -> None:
        """Handle items from `address` in the loop `ground`; go on after failures unless `on_failure` is "fail".

        Args:
            handler: The user's function.
            address: Where the items come from.
            on_failure: What is done about a failure.
            at_work: Is told in which tasks the handlers run.
            ground: The loop.
            traced: Whether the handler is to be called in the context that came with its item.
        """
        self._carrier = carrier_here() if traced else None
        self._at_work = at_work
        self._ground = ground
        self._handler = handler if self._carrier is None else in_context(self._carrier, handler)
        self._address = address
        self._on_failure = on_failure
        self._failures = 0
        self._over = ground.event()  # nothing is left to be handled
        self._idle: list[Event] = []  # for each worker that waits for an item
        self._called = False  # a worker is on its way to an item
        self._workers = 0

    async def of(self, items: Publisher[Any], concurrency: int, window: int | None) -> None:
        """Handle `items`, `concurrency` at a time, until they end; release those that no handler has begun with.

        Args:
            items: What to handle.
            concurrency: The most items in `handler` at a time.
            window: The most items that are in `handler`, wait for it, or have been asked for. None: as many as a loop
                asks for ahead (`window_ahead_of`), and not less than `concurrency`.
        """
        self._concurrency = concurrency
        make = _Inbox if self._carrier is None else _PairedInbox
        inbox = self._inbox = make(self._on_change, concurrency, window)
        async with self._ground.scope() as scope:
            self._scheduler = scope.scheduler
            try:
                items.subscribe(inbox)
                await self._over.wait()
            finally:
                inbox.close()
            if inbox.failure is not None:
                raise inbox.failure.again()

    def _on_change(self) -> None:
        """Call a worker to the items that wait; at the end, see whether all is through."""
        inbox = self._inbox
        if inbox.ended and not (inbox.waiting or inbox.in_hand):
            self._over.set()
        else:
            self._call_worker()

    def _call_worker(self) -> None:
        # One worker is called at a time. It calls the next one if it has to wait for its handler, and items wait.
        if self._called or not self._inbox.waiting:
            return
        if self._idle:
            self._called = True
            self._idle.pop().set()
        elif self._workers < self._concurrency:
            self._called = True
            self._workers += 1
            self._scheduler.start(self._work)

    async def _work(self) -> None:
        with self._at_work.here():
            await self._work_on()

    async def _work_on(self) -> None:
        inbox, context = self._inbox, copy_context()
        while True:
            self._called = False
            inbox.intake.count_workers(1)
            await self._handle_waiting(context)
            inbox.intake.count_workers(-1)
            if has_changed(context):
                self._workers -= 1
                self._call_worker()
                return
            bell = self._ground.event()
            self._idle.append(bell)
            await bell.wait()

    async def _handle_waiting(self, context: Context) -> None:
        """Handle items until none waits, or the context is not `context` any more."""
        inbox, handler = self._inbox, self._handler
        until, left = _machine.now() + TURN_S, SLICE
        while (inbox.waiting or inbox.ask_for_more()) and not has_changed(context):
            if not left or _machine.now() > until:
                inbox.ask_for_more()
                await self._ground.checkpoint()
                until, left = _machine.now() + TURN_S, SLICE
                continue
            left -= 1
            item = inbox.waiting.popleft()
            try:
                result = handler(item)
                handling = result if result is not None and inspect.isawaitable(result) else None
                if result is not None and handling is None:
                    refuse_unrun("consume", "handler", result)
            except BaseException as error:
                if not self._goes_on_after(error, inbox.take_hold()):
                    raise
            else:
                if handling is not None:
                    await self._wait_for(handling, item)
                    continue
                inbox.done()
            inbox.intake.end(1)
        if inbox.ended:
            self._on_change()

    async def _wait_for(self, handling: Awaitable[object], item: object) -> None:
        """Wait for what the handler has returned for an item."""
        inbox = self._inbox
        number, hold = inbox.keep_in_hand(item)
        inbox.ask_for_more()
        try:
            self._call_worker()
            result = await handling
            if result is not None:
                refuse_unrun("consume", "handler", result)
        except BaseException as error:
            if not self._goes_on_after(error, hold):
                raise
        else:
            hold.done()
        inbox.let_go(number)
        if inbox.ended:
            self._on_change()

    def _goes_on_after(self, error: BaseException, hold: Hold) -> bool:
        """Give back an item whose handler raised `error`; tell whether the other items are still handled."""
        if not isinstance(error, Exception):  # a cancellation: not a failure of the handler, but the work has begun
            hold.fail(DeliveryFailed("modified", delivery_failed=True))
            return False
        hold.fail(error)
        if self._on_failure == "fail":
            return False
        self._log(error)
        return True

    def _log(self, error: Exception) -> None:
        self._failures += 1
        address, count = self._address, self._failures
        HANDLER_FAILED.tell(address, raised=error, address=address, count=count, on_failure=self._on_failure)


class _Inbox(Sink[Any]):
    """The items that wait for a handler, and the demand for more; see the module's text.

    Items are asked for when fewer than `concurrency` are here or on their way, or when half of the limit is missing.

    Attributes:
        waiting: The items.
        in_hand: The items in `handler`, and since when; by their numbers, in the order in which they were taken.
        intake: The items, and how many may be asked for.
    """

    operator = "consume"

    __slots__ = ("_taken", "in_hand", "intake", "waiting")

    def __init__(self, on_change: Callable[[], None], concurrency: int, window: int | None) -> None:
        super().__init__(on_change)
        self.intake = Intake[Any](concurrency, window)
        self.waiting = self.intake.items
        self.in_hand: dict[int, tuple[object, float]] = {}
        self._taken = 0
        self.request(self.intake.more())

    # the publisher calls these

    def on_subscribe(self, subscription: Subscription) -> None:
        """Receive the subscription."""
        require_subscription(subscription)
        if self._subscription is ENDED and not self.ended:
            self.intake.come_from(subscription, later=True)
        super().on_subscribe(subscription)

    def on_next(self, item: Any) -> None:  # noqa: ANN401 - whatever comes
        """Receive an item."""
        if not self.ended:
            self.intake.put(item)
            self.outstanding -= 1
            if len(self.waiting) == 1:
                self._on_change()

    def on_run(self, run: Run[Any]) -> None:
        """Receive many items."""
        if not self.ended:
            before = len(self.waiting)
            try:
                self.intake.put_run(run)
            finally:
                self.outstanding -= len(self.waiting) - before
                if not before and self.waiting:
                    self._on_change()

    def on_error(self, error: BaseException) -> None:
        """Receive the error of the stream; if the connection is lost, the items that wait are given back."""
        if isinstance(error, TransportError):
            self.intake.release()
        super().on_error(error)

    # the workers call these

    def done(self) -> None:
        """Say that the item taken from `waiting` last has been processed."""
        self.intake.done()

    def take_hold(self) -> Hold:
        """Take the claim on the item taken from `waiting` last."""
        return self.intake.take_hold()

    def keep_in_hand(self, item: object) -> tuple[int, Hold]:
        """Note that the item taken from `waiting` last stays in hand; return its number, and the claim on it."""
        number = self._taken = self._taken + 1
        self.in_hand[number] = item, trio.current_time()
        return number, self.intake.take_hold()

    def let_go(self, number: int) -> None:
        """Hear that an item that stayed in hand has been handled; ask for more."""
        del self.in_hand[number]
        self.intake.end(1)
        self.ask_for_more()

    def ask_for_more(self) -> bool:
        """Ask for as many items as the speed of the handlers allows; tell whether items wait: they may come at once."""
        if not self.ended and (more := self.intake.more()):
            self.request(more)
        return bool(self.waiting)

    def close(self) -> None:
        """End the subscription, and release the items that wait."""
        self.cancel()  # first: what is given back must not come again
        self.intake.release()

    def blame(self, asked: Asked) -> Culprit | None:
        """Return that the handler is not through with an item, if it is so."""
        for _, since in self.in_hand.values():
            for_s = trio.current_time() - since
            return asked.blame("slow_handler", f"slow handler of {asked.consumer}", for_s=for_s)
        return None

    # the link calls this

    def oldest(self) -> str:
        """Say which item has been in `handler` longest, as the end of a sentence."""
        for item, since in self.in_hand.values():
            return f", longest of {item!r:.80}: for {trio.current_time() - since:.3g} s"
        return ""


class _PairedInbox(_Inbox):
    """An inbox of pairs: an item, and the context that it came with before it."""

    __slots__ = ()

    takes_pairs = True

    def keep_in_hand(self, item: Any) -> tuple[int, Hold]:  # noqa: ANN401 - a pair
        """See `_Inbox.keep_in_hand`; the item alone is shown."""
        return super().keep_in_hand(item[1])
