"""rstreams for asyncio: the names of `rstreams`, whose functions and blocks belong to asyncio tasks.

    import rstreams.aio as rstreams

Nothing of trio is seen: coroutines await whatever asyncio has, and cancelling a task ends what it waits for.
"""

from rstreams.aio._scope import Scope
from rstreams.aio._stream import ConnectableStream, GroupedStream, Stream

__all__ = ["ConnectableStream", "GroupedStream", "Scope", "Stream"]
