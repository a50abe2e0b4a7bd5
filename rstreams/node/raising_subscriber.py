"""Handing a message to a subscriber that may raise."""

from __future__ import annotations

from collections.abc import Callable

from rstreams._events.table import CONSUMER_RAISED, CONSUMER_RAISED_AGAIN
from rstreams.abc import Run, Subscriber


def hand_over(
    subscriber: Subscriber[bytes], encoded: bytes, address: str, drop: Callable[[], None]
) -> Exception | None:
    """Call `on_next`; only a subscriber that raises, against rule 2.13, loses its subscription.

    Args:
        subscriber: The receiver of the message.
        encoded: The message.
        address: The name of the address, for the log.
        drop: Ends the subscription at the address without a signal; called before `on_error`.

    Returns: The exception that the subscriber raised, else None.
    """
    try:
        subscriber.on_next(encoded)
    except Exception as error:
        end_raised(subscriber, error, address, drop)
        return error
    return None


def hand_over_run(
    take: Callable[[Run[bytes]], None],
    run: Run[bytes],
    subscriber: Subscriber[bytes],
    address: str,
    drop: Callable[[], None],
) -> None:
    """Call `take` with a run, as `hand_over` calls `on_next`; messages that it does not take are given back."""
    try:
        take(run)
    except Exception as error:
        run.fail(error)
        end_raised(subscriber, error, address, drop)
    except BaseException as error:
        run.fail(error)
        raise
    finally:
        run.close()


def end_raised(subscriber: Subscriber[bytes], error: Exception, address: str, drop: Callable[[], None]) -> None:
    """End the subscription of a subscriber that has raised `error`, as `hand_over` does."""
    CONSUMER_RAISED.tell(address, raised=error, address=address)
    drop()
    try:
        subscriber.on_error(error)
    except Exception as again:
        CONSUMER_RAISED_AGAIN.tell(address, raised=again, address=address)
