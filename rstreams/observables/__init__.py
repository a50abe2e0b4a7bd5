"""reactivex, both ways: observables as streams, streams as observables, reactivex operators under demand.

An observable sends when it likes; a stream sends what was requested. Where the first becomes the second, something must
be said about items that nobody is ready for (`from_observable`). Where a reactivex operator stands inside a stream
(`rx`), the stream goes in item by item.

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
