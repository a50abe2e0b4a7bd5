from rstreams._core.demand import UNBOUNDED
from rstreams.operators.do_on_next import do_on_next
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import FunctionContract


class TestDoOnNext(FunctionContract):
    build = staticmethod(lambda source: do_on_next(source, lambda _: "dropped"))
    model = staticmethod(lambda items: items)
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))
    failing = staticmethod(lambda source, function: do_on_next(source, lambda _: function()))


def test_the_function_sees_each_item_before_it_is_emitted() -> None:
    seen: list[str] = []
    source = ManualPublisher[int]()
    probe = ProbeSubscriber[int](2, on_item=lambda x: seen.append(f"emitted {x}"))
    do_on_next(source, lambda x: seen.append(f"saw {x}")).subscribe(probe)

    source.next(1, 2)

    assert seen == ["saw 1", "emitted 1", "saw 2", "emitted 2"]
