"""Sources, one in each file: functions that return a publisher without an upstream."""

from rstreams._checks.other_names import answer_names as _answer_names
from rstreams._checks.publishers import require_source_in as _require_source_in
from rstreams.sources.defer import defer
from rstreams.sources.empty import empty
from rstreams.sources.fail import fail
from rstreams.sources.from_async_iterable import from_async_iterable
from rstreams.sources.from_callable import from_callable
from rstreams.sources.from_future import from_future
from rstreams.sources.from_iterable import from_iterable
from rstreams.sources.generate import generate
from rstreams.sources.interval import interval
from rstreams.sources.never import never
from rstreams.sources.of import of
from rstreams.sources.range import range  # noqa: A004 - the field's name
from rstreams.sources.timer import timer
from rstreams.sources.unfold import unfold
from rstreams.sources.using import using

__all__ = [
    "defer",
    "empty",
    "fail",
    "from_async_iterable",
    "from_callable",
    "from_future",
    "from_iterable",
    "generate",
    "interval",
    "never",
    "of",
    "range",
    "timer",
    "unfold",
    "using",
]

_answer_names(__name__)
_require_source_in(__name__)
