import pytest

from rstreams.abc import Publisher
from rstreams.errors import ConfigError
from rstreams.operators.name import name
from rstreams.sources.empty import empty
from tests.operators.contract import OperatorContract


def _named(source: Publisher[int]) -> Publisher[int]:
    return name(source, "orders")


class TestName(OperatorContract):
    build = _named
    model = list
    requests = ((1, [1]), (5, [5]))


@pytest.mark.parametrize("bad", ["", None, 7])
def test_a_name_is_a_text(bad: object) -> None:
    with pytest.raises(ConfigError, match=r"name\(name=.*\): name must be a text that is not empty"):
        name(empty(), bad)  # type: ignore[arg-type]
