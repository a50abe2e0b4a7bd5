"""The store of a node: partitions of messages with positions, on disk, safe after a crash.

It knows the names of partitions, positions and bytes. It knows neither AMQP nor trio.

    Store        a directory that one process uses, with a thread of its own
    Partition    an ordered sequence of messages with a name; a queue has one, a log has some
    Chain        changes of which none is made behind one that failed
    Chunk        messages that were read, in `AppendedRun`s as they were appended
    check        finds what is damaged; `export` reads the messages, and `skip` goes on without what is not readable

Theory of operation. Each call of a `Partition` that changes something is noted at once and carried out by the store's
thread. The thread takes all changes that wait, of all partitions, and makes one transaction of them: a group commit.
When the commit is as safe as the changes ask for, their functions `done` are called in the thread of the owner.
"""

from rstreams.store.changes import Chain
from rstreams.store.entries import AppendedRun, Chunk, Cut, Done, split
from rstreams.store.failures import StoreDamaged, StoreFull
from rstreams.store.partition import Partition
from rstreams.store.repair import SavedMessage, check, export, skip
from rstreams.store.salvage import Damage
from rstreams.store.store import Store, StoreStatistics
from rstreams.store.sync_times import SyncTimes

__all__ = [
    "AppendedRun",
    "Chain",
    "Chunk",
    "Cut",
    "Damage",
    "Done",
    "Partition",
    "SavedMessage",
    "Store",
    "StoreDamaged",
    "StoreFull",
    "StoreStatistics",
    "SyncTimes",
    "check",
    "export",
    "skip",
    "split",
]
