"""What `explain` tells of every public source and operator is true: the runs, and the counts next to the subscriber."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from rstreams import Stream
from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Publisher
from rstreams.testing import ProbeSubscriber, VirtualScheduler
from tests.conformance.subjects import ITEMLESS, PROCESSORS, PUBLISHERS, SINGLES

SUBJECTS: dict[str, Callable[[], Publisher[Any]]] = {
    **{f"{name} of {n}": partial(make, n) for name, make in PUBLISHERS.items() for n in (3, 40)},
    **{f"{name} once": make for name, make in SINGLES.items()},
    **{f"{name} without items": make for name, make in ITEMLESS.items()},
    **{f"{name} between": partial(make, Stream.range(20)) for name, make in PROCESSORS.items()},
}


@pytest.mark.parametrize("first", [1, 3, UNBOUNDED])
@pytest.mark.parametrize("name", SUBJECTS)
def test_what_explain_tells_is_true(name: str, first: int) -> None:
    with VirtualScheduler() as scheduler:
        publisher = SUBJECTS[name]()
        stream, probe = Stream(publisher), ProbeSubscriber[Any]()
        stream.subscribe(probe)
        requested = 0
        for n in (0, first, 2, 5):
            if n and not probe.ended:
                probe.request(n)
                requested = min(requested + n, UNBOUNDED)
            scheduler.advance(100.0)
            runs = stream.explain().runs
            if probe.ended:
                assert not runs
                return
            assert len(runs) == 1
            counts = runs[0].counts
            assert counts is not None
            assert min(counts.requested, UNBOUNDED) == requested
            assert counts.delivered == len(probe.items)
            assert counts.buffered >= 0
        probe.cancel()
        assert not stream.explain().runs
