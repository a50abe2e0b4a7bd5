from collections.abc import Callable

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.errors import BufferOverflow, ConfigError
from rstreams.operators.expand import expand
from rstreams.sources.empty import empty
from rstreams.sources.of import of
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import FunctionContract


class TestExpand(FunctionContract):
    build = staticmethod(lambda source: expand(source, lambda x: of(x * 10), depth=1, max_pending=20_000))
    model = staticmethod(lambda items: [*items, *(x * 10 for x in items)])
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))
    failing = staticmethod(lambda source, function: expand(source, lambda _: function()))

    def _run(self, function: Callable[[], object]) -> tuple[ManualPublisher[int], ProbeSubscriber[int]]:
        source, probe = self._subscribe_with(function)
        source.next(1)
        source.complete()
        return source, probe

    # The function is called when the source is through: its item has been handled by then.

    def test_what_a_user_function_raises_ends_the_stream(self) -> None:
        source, probe = self._run(lambda: 1 // 0)
        assert isinstance(probe.error, ZeroDivisionError)
        assert source.outcomes == ["done"]

    def test_stop_iteration_is_an_error_like_any_other(self) -> None:
        _, probe = self._run(lambda: next(iter(())))
        assert isinstance(probe.error, StopIteration)

    def test_a_user_function_may_cancel(self) -> None:
        source, probe = self._subscribe_with(lambda: probe.cancel())  # noqa: PLW0108 - there is no probe yet
        source.next(1)
        source.complete()
        assert probe.signals == ["on_subscribe", "on_next"]


def test_level_by_level() -> None:
    probe = ProbeSubscriber[int](UNBOUNDED)
    expand(of(1), lambda x: of(x * 2, x * 3) if x < 10 else empty()).subscribe(probe)
    assert probe.items == [1, 2, 3, 4, 6, 6, 9, 8, 12, 12, 18, 12, 18, 18, 27, 16, 24]
    assert probe.completed


def test_too_many_pending_items_overflow() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](UNBOUNDED)
    expand(source, of, max_pending=2).subscribe(probe)
    source.next(1, 2, 3)
    assert isinstance(probe.error, BufferOverflow)
    assert str(probe.error) == "expand: more than 2 items wait to be expanded (max_pending=2)"
    assert source.cancelled


def test_bad_options() -> None:
    with pytest.raises(ConfigError, match=r"expand\(depth=-1\)"):
        expand(of(1), of, depth=-1)
    with pytest.raises(ConfigError, match=r"expand\(max_pending=0\)"):
        expand(of(1), of, max_pending=0)
