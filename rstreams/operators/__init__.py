"""Operators, one a file: functions from publisher to publisher that take part in demand and holds."""

from rstreams.operators.buffer_count import buffer_count
from rstreams.operators.concat import concat
from rstreams.operators.do_on_complete import do_on_complete
from rstreams.operators.do_on_error import do_on_error
from rstreams.operators.do_on_next import do_on_next
from rstreams.operators.filter import filter  # noqa: A004 - the field's name
from rstreams.operators.flat_map import flat_map
from rstreams.operators.map import map  # noqa: A004 - the field's name
from rstreams.operators.map_async import map_async
from rstreams.operators.merge import merge
from rstreams.operators.on_error_resume import on_error_resume
from rstreams.operators.reduce import reduce
from rstreams.operators.scan import scan
from rstreams.operators.skip import skip
from rstreams.operators.take import take

__all__ = [
    "buffer_count",
    "concat",
    "do_on_complete",
    "do_on_error",
    "do_on_next",
    "filter",
    "flat_map",
    "map",
    "map_async",
    "merge",
    "on_error_resume",
    "reduce",
    "scan",
    "skip",
    "take",
]
