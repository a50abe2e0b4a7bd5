from rstreams import Stream
from rstreams.operators.collect import collect
from tests.operators.folding_contract import AckContract, FoldingContract


class TestCollect(AckContract, FoldingContract):
    build = staticmethod(collect)
    model = staticmethod(lambda items: [list(items)])
    acking = staticmethod(lambda source, ack: collect(source, ack=ack))


async def test_each_subscriber_has_a_list_of_its_own() -> None:
    lists = Stream.range(3).collect()
    first, second = await lists.to_list(), await lists.to_list()
    first[0].append(7)
    assert second == [[0, 1, 2]]
