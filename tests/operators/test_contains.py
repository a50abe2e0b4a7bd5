from rstreams.operators.contains import contains
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.folding_contract import FoldingContract


class TestContains(FoldingContract):
    build = staticmethod(lambda source: contains(source, 6))
    model = staticmethod(lambda items: [6 in items])


def test_the_first_that_is_equal_settles_it() -> None:
    source, probe = ManualPublisher[object](), ProbeSubscriber[bool](1)
    contains(source, 2).subscribe(probe)
    source.next(1, 2.0)
    assert (probe.items, probe.completed, source.cancelled) == ([True], True, True)


def test_a_comparison_that_fails_ends_the_stream() -> None:
    class Odd:
        __hash__ = None

        def __eq__(self, other: object) -> bool:
            raise ZeroDivisionError

    source, probe = ManualPublisher[object](), ProbeSubscriber[bool](1)
    contains(source, 2).subscribe(probe)
    source.next(Odd())
    assert isinstance(probe.error, ZeroDivisionError)
    assert source.outcomes == ["failed"]
