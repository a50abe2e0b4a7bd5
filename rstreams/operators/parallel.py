"""parallel: several copies of a pipeline, among which the items are distributed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rstreams._checks.choices import require_flag
from rstreams._checks.functions import require_plain
from rstreams._checks.numbers import require_count
from rstreams._checks.publishers import require_returned_publisher
from rstreams._core.subscription import subscribe_failed
from rstreams._stages.stage import Joined
from rstreams.abc import Publisher, Subscriber
from rstreams.operators.distribute import distributed
from rstreams.operators.merge import Merge

T = TypeVar("T")
R = TypeVar("R")


def parallel(
    source: Publisher[T],
    workers: int,
    function: Callable[[Publisher[T]], Publisher[R]],
    *,
    window: int = 256,
    delay_errors: bool = False,
) -> Publisher[R]:
    """Distribute the items of `source` among `workers` pipelines made by `function`, and merge their results.

        --1--2--3--4------|
         parallel(2, slow)
        -----1--2--3--4---|

    It does not use threads. It is for pipelines that wait, such as one with `map_async` or `map_blocking`, or that keep
    something for each worker. Results come as they become ready.

    Args:
        source: The publisher of the items.
        workers: The number of pipelines; at least 1.
        function: Called once for each worker with its stream of items, at each subscription.
        window: The most items requested of the source and not yet given to a worker; at least 1.
        delay_errors: Hold failures back until all other workers have ended. Several failures end the stream as an
            `ExceptionGroup`, in the order in which they came.

    Demand: Each worker's pipeline is asked for 32 results ahead, and requests the items it needs for them. The source
        is asked for their sum, and an item goes to the worker with the most demand.
    Holds: As in the workers' pipelines. A result that waits is held.
    Errors: `ConfigError` at the call if `workers` or `window` is less than 1. An exception that `function` raises, or a
        `TypeError` if its result is not a publisher, ends the stream before it begins. The first worker that fails ends
        the stream, behind its results. An error of the source comes when all workers have ended.
    Cancels: The source and all workers, when one fails. A worker whose pipeline completes early gets no more items.
    Spec: Reactive Streams 1.1, 1.3, 3.3, 3.17.

    Example:
        >>> async def slow(x: int) -> int:
        ...     await asyncio.sleep(1.0)
        ...     return x * 10
        >>> sorted(await Stream.range(4).parallel(2, lambda items: items.map_async(slow)).to_list())
        [0, 10, 20, 30]
    """
    require_flag("parallel", "delay_errors", delay_errors)
    require_plain("parallel", "function", function)
    require_count("parallel", "workers", workers, 1, unit="")
    require_count("parallel", "window", window, 1)

    def start(downstream: Subscriber[R]) -> Merge[R] | None:
        items = distributed(source, workers, window)
        try:
            results = [require_returned_publisher("parallel", "function", function(items)) for _ in range(workers)]
        except Exception as error:
            subscribe_failed(downstream, error)
            return None
        stage = _Parallel[R](downstream, 32, delay_errors=delay_errors).start(results)
        items.wait_no_more()  # a worker may have left already, or may never subscribe
        return stage

    return Joined(start)


class _Parallel(Merge[R]):
    __slots__ = ()

    operator = "parallel"
