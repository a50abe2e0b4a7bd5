import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.errors import ConfigError
from rstreams.operators.buffer_count import buffer_count
from rstreams.operators.skip_last import skip_last
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract


class TestSkipLast(OperatorContract):
    build = staticmethod(lambda source: skip_last(source, 1))
    model = staticmethod(lambda items: items[:-1])
    requests = ((1, [2]), (5, [6]), (UNBOUNDED, [UNBOUNDED]))


def test_the_last_ones_are_done_when_the_source_is_through() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](UNBOUNDED)
    skip_last(source, 2).subscribe(probe)
    source.next(1, 2, 3)
    assert (probe.items, source.outcomes) == ([1], ["done", None, None])
    source.complete()
    assert (probe.items, source.outcomes) == ([1], ["done"] * 3)


@pytest.mark.parametrize("count", [-1, 1.5, "3", True, None])
def test_a_wrong_count_is_named(count: int) -> None:
    with pytest.raises(ConfigError, match=rf"skip_last\(count={count!r}\): count must be 0 or more items"):
        skip_last(ManualPublisher[int](), count)


def test_a_window_must_have_room_for_one_more() -> None:
    class Link(ManualPublisher[int]):
        window = 3

    source, probe = Link(), ProbeSubscriber[int](1)
    skip_last(source, 3).subscribe(probe)
    assert isinstance(probe.error, ConfigError)
    assert "skip_last(count=3) needs 4 items at once" in str(probe.error)
    assert source.cancelled


def test_what_it_keeps_is_no_room_for_the_next_stage() -> None:
    class Link(ManualPublisher[int]):
        window = 4

    source, probe = Link(), ProbeSubscriber[list[int]](1)
    buffer_count(skip_last(source, 2), 3).subscribe(probe)
    assert isinstance(probe.error, ConfigError)
    assert "needs 3 items at once, but of the link it reads only 2 can be held" in str(probe.error)
    assert source.cancelled
