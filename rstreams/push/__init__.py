"""Push sources: a stream of what the program itself pushes, with an answer for every item; Reactor calls them sinks.

    prices = Multicast[float]()
    prices.subscribe(subscriber)
    prices.emit(9.5)        # EmitResult.OK, or why not
    await prices.send(9.6)  # waits for room

None of them keeps more than it was made for: what has no room is refused, and the caller decides.
"""

from rstreams.push.emit_result import EmitResult
from rstreams.push.latest import Latest
from rstreams.push.multicast import Multicast
from rstreams.push.replay import Replay
from rstreams.push.unicast import Unicast

__all__ = ["EmitResult", "Latest", "Multicast", "Replay", "Unicast"]
