"""Push sources: streams of items that the program itself pushes, with an answer to each. Reactor calls them sinks.

    prices = Multicast[float]()
    prices.subscribe(subscriber)
    prices.emit(9.5)        # EmitResult.OK, or the reason why not
    await prices.send(9.6)  # waits for room

None of them keeps more items than it was made for. An item without room is refused, and the caller decides.
"""

from rstreams._checks.other_names import answer_names as _answer_names
from rstreams.push.emit_result import EmitResult
from rstreams.push.latest import Latest
from rstreams.push.multicast import Multicast
from rstreams.push.replay import Replay
from rstreams.push.unicast import Unicast

__all__ = ["EmitResult", "Latest", "Multicast", "Replay", "Unicast"]

_answer_names(__name__)
