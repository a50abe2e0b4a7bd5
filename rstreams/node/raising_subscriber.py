"""Handing a message to a subscriber that may raise."""

from __future__ import annotations

import logging
from collections.abc import Callable

from rstreams.abc import Run, Subscriber
from rstreams.runtime.seldom import log_seldom

logger = logging.getLogger("rstreams.node")


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
    text = "address %r: a subscriber raised in on_next; its subscription is ended"
    log_seldom(logger, logging.ERROR, text, address, peer=address, exc_info=error)
    drop()
    try:
        subscriber.on_error(error)
    except Exception:
        logger.exception("address %r: it also raised in on_error", address)
