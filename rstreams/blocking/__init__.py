"""rstreams for scripts, notebooks and threads without trio: the same streams, in plain `with` and `for`.

    with rstreams.blocking.connect("amqp://127.0.0.1:5672") as connection:
        for reading in connection.stream("temperature").map(parse).take(10):
            print(reading)

The connection lives in a trio run in a thread of its own. Heartbeats therefore go on while the program computes.
Functions given to operators run in that thread and must not block it. The body of the loop runs in the caller's thread.
"""

from rstreams._checks.other_names import answer_names as _answer_names
from rstreams.blocking._background import Background
from rstreams.blocking._connection import BlockingConnection, connect
from rstreams.blocking._items import Items
from rstreams.blocking._stream import BlockingStream

__all__ = ["Background", "BlockingConnection", "BlockingStream", "Items", "connect"]

_answer_names(__name__)
