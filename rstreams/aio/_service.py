"""A program of asyncio that serves until it is told to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar, TypeVarTuple

from rstreams.aio._guest import guest_of, services
from rstreams.errors import RStreamsError
from rstreams.runtime.service import Service, beginning

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def run(
    main: Callable[[*Ts], Awaitable[T]],
    *args: *Ts,
    drain_s: float = 5.0,
    debug: bool | None = None,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> T:
    """Run an async function under asyncio, as `asyncio.run` does, and end it in order at Ctrl-C (SIGINT) or SIGTERM.

        rstreams.aio.run(main)

    At the first signal every open connection and node is drained, as by its `drain_and_close`: running handlers
    finish, and no new work begins. After that, or when `drain_s` is over, `main` is cancelled: items in hand are
    given back and the connections are closed. A second signal cancels `main` at once. A third one ends the process.

    Args:
        main: The async function itself, not the result of a call.
        *args: Its arguments.
        drain_s: How long handlers and publishers may take to end, in seconds; 0 cancels `main` at once.
        debug: As for `asyncio.Runner`.
        loop_factory: As for `asyncio.Runner`, such as `uvloop.new_event_loop`.

    Returns: The result of `main`, if no signal came.

    Errors: As `rstreams.run`; `RuntimeError` where an event loop runs already.
    Context: The main thread, outside of asyncio.
    """
    begin = beginning(main, args, drain_s, of="rstreams.aio.run", plain="asyncio.run")
    service = Service(drain_s)
    with asyncio.Runner(debug=debug, loop_factory=loop_factory) as runner:
        results = runner.run(_serve(service, begin))
    service.leave()
    return results[0]


async def _serve(service: Service, main: Callable[[], Awaitable[T]]) -> list[T]:
    """Return the result of `main`, in a list; an empty one if it was cancelled because of a signal."""
    loop, told, results = asyncio.get_running_loop(), asyncio.Event(), list[T]()
    cancelled = False

    async def begin() -> T:
        return await main()

    def cancel() -> None:
        nonlocal cancelled
        cancelled = True
        serving.cancel()

    async def stop() -> None:
        await told.wait()
        guest = guest_of(loop)
        try:
            if guest is None:
                service.say()
            else:
                with suppress(RStreamsError):  # the last connection has been closed meanwhile
                    await guest.run(service.drain)
        finally:
            cancel()

    services[loop] = service
    stopping = loop.create_task(stop())
    try:
        with service.listening(loop.call_soon_threadsafe, told.set, cancel):
            serving = loop.create_task(begin())
            try:
                results.append(await serving)
            except asyncio.CancelledError:
                if not cancelled:
                    raise
    finally:
        del services[loop]
        stopping.cancel()
        await asyncio.wait([stopping])
    return results
