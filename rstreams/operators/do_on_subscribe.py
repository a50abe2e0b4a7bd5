"""do_on_subscribe: a call at the start of a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rstreams._checks.functions import require_effect
from rstreams._checks.publishers import require_subscription
from rstreams._core.subscription import ENDED, subscribe_failed
from rstreams._stages.stage import Lifted, PassingStage
from rstreams.abc import Publisher, Subscriber, Subscription

T = TypeVar("T")


def do_on_subscribe(source: Publisher[T], function: Callable[[], object]) -> Publisher[T]:
    """Call `function()` when `source` has been subscribed to, before any request.

          --1--2-->
        do_on_subscribe(log)
          --1--2-->

    Args:
        source: The publisher of the items.
        function: Called once for each subscription, in the task that delivers it; it must not block. Its result is
            ignored.

    Demand: Passed up unchanged.
    Errors: An exception that `function` raises ends the stream unchanged, before the first item.
    Cancels: The source, when `function` raises.
    Spec: Reactive Streams 1.9, 2.5.

    Example:
        >>> await Stream.of(1, 2).do_on_subscribe(lambda: print("begins")).to_list()
        begins
        [1, 2]
    """
    require_effect("do_on_subscribe", "function", function)
    return Lifted(source, lambda downstream: _DoOnSubscribe(downstream, function))


class _DoOnSubscribe(PassingStage[T]):
    __slots__ = ("_function",)

    operator = "do_on_subscribe"
    only_reacts = True

    def __init__(self, downstream: Subscriber[T], function: Callable[[], object]) -> None:
        super().__init__(downstream)
        self._function = function

    def on_subscribe(self, subscription: Subscription) -> None:
        require_subscription(subscription)
        if self._upstream is ENDED and not self._ended:
            try:
                self._function()
            except Exception as error:
                self._ended = True
                self._let_go()
                subscription.cancel()
                subscribe_failed(self._downstream, error)
                return
        super().on_subscribe(subscription)
