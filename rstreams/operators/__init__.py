"""Operators, one a file: functions from publisher to publisher that take part in demand and holds."""

from rstreams._checks.other_names import answer_names as _answer_names
from rstreams._checks.publishers import require_source_in as _require_source_in
from rstreams.operators.all import all  # noqa: A004 - the field's name
from rstreams.operators.any import any  # noqa: A004 - the field's name
from rstreams.operators.average import average
from rstreams.operators.broadcast import broadcast
from rstreams.operators.buffer_boundary import buffer_boundary
from rstreams.operators.buffer_count import buffer_count
from rstreams.operators.buffer_count_or_time import buffer_count_or_time
from rstreams.operators.buffer_time import buffer_time
from rstreams.operators.buffer_until import buffer_until
from rstreams.operators.cache import cache
from rstreams.operators.cast import cast
from rstreams.operators.checkpoint import checkpoint
from rstreams.operators.collect import collect
from rstreams.operators.combine_latest import combine_latest
from rstreams.operators.concat import concat
from rstreams.operators.concat_map import concat_map
from rstreams.operators.contains import contains
from rstreams.operators.count import count
from rstreams.operators.debounce import debounce
from rstreams.operators.default_if_empty import default_if_empty
from rstreams.operators.delay import delay
from rstreams.operators.delay_each import delay_each
from rstreams.operators.dematerialize import dematerialize
from rstreams.operators.distinct import distinct
from rstreams.operators.distinct_until_changed import distinct_until_changed
from rstreams.operators.distribute import distribute
from rstreams.operators.do_finally import do_finally
from rstreams.operators.do_on_cancel import do_on_cancel
from rstreams.operators.do_on_complete import do_on_complete
from rstreams.operators.do_on_error import do_on_error
from rstreams.operators.do_on_next import do_on_next
from rstreams.operators.do_on_request import do_on_request
from rstreams.operators.do_on_subscribe import do_on_subscribe
from rstreams.operators.element_at import element_at
from rstreams.operators.end_with import end_with
from rstreams.operators.enumerate import enumerate  # noqa: A004 - the field's name
from rstreams.operators.expand import expand
from rstreams.operators.filter import filter  # noqa: A004 - the field's name
from rstreams.operators.first import first
from rstreams.operators.flat_map import flat_map
from rstreams.operators.flatten import flatten
from rstreams.operators.group_by import group_by
from rstreams.operators.ignore_elements import ignore_elements
from rstreams.operators.last import last
from rstreams.operators.limit_rate import limit_rate
from rstreams.operators.limit_request import limit_request
from rstreams.operators.log import log
from rstreams.operators.map import map  # noqa: A004 - the field's name
from rstreams.operators.map_async import map_async
from rstreams.operators.map_blocking import map_blocking
from rstreams.operators.materialize import materialize
from rstreams.operators.max import max  # noqa: A004 - the field's name
from rstreams.operators.merge import merge
from rstreams.operators.merge_priority import merge_priority
from rstreams.operators.merge_sorted import merge_sorted
from rstreams.operators.min import min  # noqa: A004 - the field's name
from rstreams.operators.name import name
from rstreams.operators.on_error_complete import on_error_complete
from rstreams.operators.on_error_map import on_error_map
from rstreams.operators.on_error_resume import on_error_resume
from rstreams.operators.on_error_return import on_error_return
from rstreams.operators.on_overflow_buffer import on_overflow_buffer
from rstreams.operators.on_overflow_drop import on_overflow_drop
from rstreams.operators.on_overflow_error import on_overflow_error
from rstreams.operators.on_overflow_latest import on_overflow_latest
from rstreams.operators.on_overflow_reduce import on_overflow_reduce
from rstreams.operators.pairwise import pairwise
from rstreams.operators.parallel import parallel
from rstreams.operators.partition import partition
from rstreams.operators.pausable import pausable
from rstreams.operators.publish import publish
from rstreams.operators.race import race
from rstreams.operators.reduce import reduce
from rstreams.operators.repeat import repeat
from rstreams.operators.replay import replay
from rstreams.operators.retry import retry
from rstreams.operators.retry_backoff import retry_backoff
from rstreams.operators.sample import sample
from rstreams.operators.scan import scan
from rstreams.operators.sequence_equal import sequence_equal
from rstreams.operators.share import share
from rstreams.operators.single import single
from rstreams.operators.skip import skip
from rstreams.operators.skip_last import skip_last
from rstreams.operators.skip_until import skip_until
from rstreams.operators.skip_while import skip_while
from rstreams.operators.start_with import start_with
from rstreams.operators.sum import sum  # noqa: A004 - the field's name
from rstreams.operators.switch_if_empty import switch_if_empty
from rstreams.operators.switch_map import switch_map
from rstreams.operators.take import take
from rstreams.operators.take_last import take_last
from rstreams.operators.take_until import take_until
from rstreams.operators.take_while import take_while
from rstreams.operators.throttle import throttle
from rstreams.operators.time_interval import time_interval
from rstreams.operators.timeout import timeout
from rstreams.operators.timestamp import timestamp
from rstreams.operators.to_dict import to_dict
from rstreams.operators.to_set import to_set
from rstreams.operators.window_boundary import window_boundary
from rstreams.operators.window_count import window_count
from rstreams.operators.window_count_or_time import window_count_or_time
from rstreams.operators.window_time import window_time
from rstreams.operators.with_latest_from import with_latest_from
from rstreams.operators.zip import zip  # noqa: A004 - the field's name

__all__ = [
    "all",
    "any",
    "average",
    "broadcast",
    "buffer_boundary",
    "buffer_count",
    "buffer_count_or_time",
    "buffer_time",
    "buffer_until",
    "cache",
    "cast",
    "checkpoint",
    "collect",
    "combine_latest",
    "concat",
    "concat_map",
    "contains",
    "count",
    "debounce",
    "default_if_empty",
    "delay",
    "delay_each",
    "dematerialize",
    "distinct",
    "distinct_until_changed",
    "distribute",
    "do_finally",
    "do_on_cancel",
    "do_on_complete",
    "do_on_error",
    "do_on_next",
    "do_on_request",
    "do_on_subscribe",
    "element_at",
    "end_with",
    "enumerate",
    "expand",
    "filter",
    "first",
    "flat_map",
    "flatten",
    "group_by",
    "ignore_elements",
    "last",
    "limit_rate",
    "limit_request",
    "log",
    "map",
    "map_async",
    "map_blocking",
    "materialize",
    "max",
    "merge",
    "merge_priority",
    "merge_sorted",
    "min",
    "name",
    "on_error_complete",
    "on_error_map",
    "on_error_resume",
    "on_error_return",
    "on_overflow_buffer",
    "on_overflow_drop",
    "on_overflow_error",
    "on_overflow_latest",
    "on_overflow_reduce",
    "pairwise",
    "parallel",
    "partition",
    "pausable",
    "publish",
    "race",
    "reduce",
    "repeat",
    "replay",
    "retry",
    "retry_backoff",
    "sample",
    "scan",
    "sequence_equal",
    "share",
    "single",
    "skip",
    "skip_last",
    "skip_until",
    "skip_while",
    "start_with",
    "sum",
    "switch_if_empty",
    "switch_map",
    "take",
    "take_last",
    "take_until",
    "take_while",
    "throttle",
    "time_interval",
    "timeout",
    "timestamp",
    "to_dict",
    "to_set",
    "window_boundary",
    "window_count",
    "window_count_or_time",
    "window_time",
    "with_latest_from",
    "zip",
]

_answer_names(__name__)
_require_source_in(__name__)
