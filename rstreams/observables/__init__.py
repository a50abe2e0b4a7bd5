"""reactivex, both ways: observables as streams, streams as observables, and reactivex operators under demand.

An observable sends when it likes; a stream sends the items that were requested. Where an observable becomes a stream,
an option says what happens to items without demand (`from_observable`). An operator of reactivex inside a stream (`rx`)
gets the stream's items one by one.

An operator of reactivex that takes time, such as `delay`, finds a scheduler that keeps the time of the stream's scope:
its timers are trio's, its callbacks run in the stream's own thread, and a virtual clock moves it.

This package needs reactivex: `pip install rstreams[reactivex]`.
"""

from importlib.util import find_spec

from rstreams.errors import ConfigError

if find_spec("reactivex") is None:
    msg = "rstreams.observables needs reactivex, which is not installed: pip install rstreams[reactivex]"
    raise ConfigError(msg)

from rstreams.observables.from_observable import Overflow, from_observable
from rstreams.observables.rx import rx
from rstreams.observables.to_observable import to_observable

__all__ = ["Overflow", "from_observable", "rx", "to_observable"]


def __dir__() -> list[str]:
    return __all__
