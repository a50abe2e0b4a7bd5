from rstreams._core.demand import UNBOUNDED
from rstreams.errors import ConfigError
from rstreams.operators.combine_latest import combine_latest
from rstreams.sources.empty import empty
from rstreams.sources.of import of
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract


class TestCombineLatest(OperatorContract):
    holds_what_it_keeps = False  # the latest item of the other source is kept too
    build = staticmethod(lambda source: combine_latest(source, of("a")))
    model = staticmethod(lambda items: [(x, "a") for x in items])
    requests = ((1, [32]), (5, [32]), (UNBOUNDED, [32]))

    def test_an_error_of_the_source_midway(self) -> None:
        source, probe = self.subscribe()
        error = ValueError("midway")
        source.next(1)

        source.error(error)

        assert probe.items == [(1, "a")]
        assert probe.error is error
        assert source.outcomes == ["done"]


def test_nothing_is_skipped_when_demand_is_slow() -> None:
    one, two, probe = ManualPublisher[int](), ManualPublisher[str](), ProbeSubscriber[tuple[int, str]](1)
    combine_latest(one, two).subscribe(probe)
    one.next(1)
    two.next("a", "b")
    one.next(2)
    assert probe.items == [(1, "a")]

    probe.request(9)

    assert probe.items == [(1, "a"), (2, "a"), (2, "b")]
    assert one.outcomes == ["done", None]  # the latest is held
    assert two.outcomes == ["done", None]


def test_items_in_no_tuple_are_given_back() -> None:
    one, two, probe = ManualPublisher[int](), ManualPublisher[str](), ProbeSubscriber[tuple[int, str]](1)
    combine_latest(one, two).subscribe(probe)
    one.next(1, 2)

    probe.cancel()

    assert one.outcomes == ["done", "released"]
    assert two.cancelled


def test_a_source_without_items_ends_it() -> None:
    one, probe = ManualPublisher[int](), ProbeSubscriber[object](1)

    combine_latest(one, empty()).subscribe(probe)

    assert probe.completed
    assert one.cancelled


def test_delayed_errors_wait_for_the_others() -> None:
    one, two, probe = ManualPublisher[int](), ManualPublisher[str](), ProbeSubscriber[tuple[int, str]](9)
    combine_latest(one, two, delay_errors=True).subscribe(probe)
    one.next(1)
    first, second = ValueError(), KeyError()
    one.error(first)
    two.next("a")
    assert probe.items == [(1, "a")]

    two.error(second)

    assert isinstance(probe.error, ExceptionGroup)
    assert probe.error.exceptions == (first, second)


def test_a_window_of_one_is_too_small() -> None:
    class Narrow(ManualPublisher[int]):
        window = 1

    probe = ProbeSubscriber[object](1)
    combine_latest(Narrow(), of(1)).subscribe(probe)

    assert isinstance(probe.error, ConfigError)
    assert "combine_latest needs 2 items" in str(probe.error)
