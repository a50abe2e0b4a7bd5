"""What the verification kit examines of the operators over several streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rstreams.abc import Publisher
from rstreams.operators.combine_latest import combine_latest
from rstreams.operators.concat_map import concat_map
from rstreams.operators.expand import expand
from rstreams.operators.map import map as map_
from rstreams.operators.merge_priority import merge_priority
from rstreams.operators.merge_sorted import merge_sorted
from rstreams.operators.race import race
from rstreams.operators.switch_map import switch_map
from rstreams.operators.with_latest_from import with_latest_from
from rstreams.operators.zip import zip as zip_
from rstreams.sources.empty import empty
from rstreams.sources.fail import fail
from rstreams.sources.never import never
from rstreams.sources.of import of
from rstreams.sources.range import range as range_

PUBLISHERS: dict[str, Callable[[int], Publisher[Any]]] = {
    "zip": lambda n: zip_(range_(n), range_(n + 3)),
    "combine_latest": lambda n: combine_latest(range_(n), of(0)),
    "merge_priority": lambda n: merge_priority(range_(n // 2), range_(n - n // 2)),
    "merge_sorted": lambda n: merge_sorted(range_(n // 2), range_(n - n // 2)),
    "race": lambda n: race(never(), range_(n)),
    "with_latest_from": lambda n: with_latest_from(range_(n), of(0)),
    "concat_map (to many)": lambda n: concat_map(of(n // 2, n - n // 2), range_),
    "switch_map": lambda n: switch_map(of(n), range_),
    "expand": lambda n: expand(range_(n // 2 + n % 2), lambda x: of(x) if x < n // 2 else empty(), depth=1),
}

PROCESSORS: dict[str, Callable[[Publisher[Any]], Publisher[Any]]] = {
    "zip (one)": lambda s: map_(zip_(s), lambda row: row[0]),
    "combine_latest (one)": lambda s: map_(combine_latest(s), lambda row: row[0]),
    "merge_priority (one)": lambda s: merge_priority(empty(), s),
    "merge_sorted (one)": lambda s: merge_sorted(s, key=lambda _: 0),
    "race (one)": race,
    "with_latest_from (of one)": lambda s: map_(with_latest_from(s, of(0)), lambda row: row[0]),
    "concat_map": lambda s: concat_map(s, of),
    "expand (depth=0)": lambda s: expand(s, of, depth=0),
}

FAILING: dict[str, Callable[[], Publisher[Any]]] = {
    "zip": lambda: zip_(never(), fail(LookupError())),
    "combine_latest": lambda: combine_latest(never(), fail(LookupError())),
    "merge_priority": lambda: merge_priority(never(), fail(LookupError())),
    "merge_sorted": lambda: merge_sorted(never(), fail(LookupError())),
    "race": lambda: race(never(), fail(LookupError())),
    "with_latest_from": lambda: with_latest_from(never(), fail(LookupError())),
    "concat_map (to many)": lambda: concat_map(fail(LookupError()), of),
    "switch_map": lambda: switch_map(fail(LookupError()), of),
    "expand": lambda: expand(fail(LookupError()), of),
}
