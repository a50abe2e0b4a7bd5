import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Publisher
from rstreams.errors import ConfigError
from rstreams.operators.take_last import take_last
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract


class TestTakeLast(OperatorContract):
    build = staticmethod(lambda source: take_last(source, 3))
    model = staticmethod(lambda items: items[-3:])
    requests = ((1, [UNBOUNDED]), (5, [UNBOUNDED]), (UNBOUNDED, [UNBOUNDED]))

    def test_cancel_midway(self) -> None:
        """Items go out when the source has completed; those that have not are given back."""
        source, probe = self.subscribe(on_item=lambda _: probe.cancel())
        self.play(source, [1, 2, 3, 4])
        assert probe.items == [2]
        assert source.outcomes == ["done", "done", "released", "released"]


def test_none_is_a_count() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    take_last(source, 0).subscribe(probe)
    source.next(1, 2)
    assert source.outcomes == ["done", "done"]
    source.complete()
    assert probe.signals == ["on_subscribe", "on_complete"]


def test_what_is_kept_is_held() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    take_last(source, 2).subscribe(probe)
    source.next(1, 2, 3)
    assert source.outcomes == ["done", None, None]
    source.complete()
    assert probe.items == [2]
    assert source.outcomes == ["done", "done", None]
    probe.request(1)
    assert probe.items == [2, 3]
    assert probe.completed


@pytest.mark.parametrize("count", [-1, 1.5, "3", True, None])
def test_a_wrong_count_is_named(count: int) -> None:
    with pytest.raises(ConfigError, match=rf"take_last\(count={count!r}\): count must be 0 or more items"):
        take_last(ManualPublisher[int](), count)


class Link(ManualPublisher[int]):
    window = 3


@pytest.mark.parametrize(("count", "fits"), [(2, True), (3, False)])
def test_a_window_must_have_room_for_one_more(count: int, fits: bool) -> None:  # noqa: FBT001 - a parameter of the test
    source, probe = Link(), ProbeSubscriber[int](1)
    last: Publisher[int] = take_last(source, count)
    last.subscribe(probe)
    assert (probe.error is None) is fits
    if not fits:
        assert isinstance(probe.error, ConfigError)
        assert "take_last(count=3) needs 4 items at once, but of the link it reads only 3 can be held" in str(
            probe.error
        )
        assert source.cancelled
