"""The operators that leave items out, and their kin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rstreams.abc import Publisher
from rstreams.operators.cast import cast
from rstreams.operators.default_if_empty import default_if_empty
from rstreams.operators.distinct import distinct
from rstreams.operators.distinct_until_changed import distinct_until_changed
from rstreams.operators.element_at import element_at
from rstreams.operators.end_with import end_with
from rstreams.operators.enumerate import enumerate as enumerate_
from rstreams.operators.first import first
from rstreams.operators.flatten import flatten
from rstreams.operators.ignore_elements import ignore_elements
from rstreams.operators.last import last
from rstreams.operators.map import map as map_
from rstreams.operators.pairwise import pairwise
from rstreams.operators.single import single
from rstreams.operators.skip_last import skip_last
from rstreams.operators.skip_until import skip_until
from rstreams.operators.skip_while import skip_while
from rstreams.operators.start_with import start_with
from rstreams.operators.switch_if_empty import switch_if_empty
from rstreams.operators.take_last import take_last
from rstreams.operators.take_until import take_until
from rstreams.operators.take_while import take_while
from rstreams.sources.empty import empty
from rstreams.sources.never import never
from rstreams.sources.of import of
from rstreams.sources.range import range as range_

PROCESSORS: dict[str, Callable[[Publisher[Any]], Publisher[Any]]] = {
    "take_while": lambda s: take_while(s, lambda _: True),
    "take_until": lambda s: take_until(s, never()),
    "skip_while": lambda s: skip_while(s, lambda _: False),
    "skip_until": lambda s: skip_until(s, of("go")),
    "skip_last (none)": lambda s: skip_last(s, 0),
    "distinct": lambda s: distinct(s, lambda x: (x, object())),
    "distinct_until_changed": lambda s: distinct_until_changed(s, lambda _: object()),
    "switch_if_empty": lambda s: switch_if_empty(s, empty()),
    "start_with (nothing)": start_with,
    "end_with (nothing)": end_with,
    "cast": lambda s: cast(s, object),
    "enumerate": lambda s: map_(enumerate_(s), lambda pair: pair[1]),
    "flatten": lambda s: flatten(map_(s, lambda x: [x])),
}

PUBLISHERS: dict[str, Callable[[int], Publisher[Any]]] = {
    "take_last": lambda n: take_last(range_(n + 5), n),
    "skip_last": lambda n: skip_last(range_(n + 3), 3),
    "pairwise": lambda n: pairwise(range_(n + 1)),
    "take_while (of more)": lambda n: take_while(range_(n + 5), lambda x: x < n),
    "skip_while (of more)": lambda n: skip_while(range_(n + 5), lambda x: x < 5),
    "switch_if_empty (of none)": lambda n: switch_if_empty(empty(), range_(n)),
    "start_with": lambda n: start_with(range_(n - n // 2), *range(n // 2)),
    "end_with": lambda n: end_with(range_(n - n // 2), *range(n // 2)),
}

SINGLES: dict[str, Callable[[], Publisher[Any]]] = {
    "first": lambda: first(range_(10)),
    "last": lambda: last(range_(10)),
    "element_at": lambda: element_at(range_(10), 3),
    "single": lambda: single(of(7)),
    "default_if_empty": lambda: default_if_empty(empty(), 7),
}

ITEMLESS: dict[str, Callable[[], Publisher[Any]]] = {
    "ignore_elements": lambda: ignore_elements(range_(10)),
}
