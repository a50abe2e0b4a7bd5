"""Keys of messages: equal values of kindred AMQP types are one key."""

from __future__ import annotations

import pytest

from rstreams.message import Char, Float, Int, Message, Symbol, UByte, ULong, encode_item
from rstreams.node.log_keys import Keys


@pytest.mark.parametrize("kindred", [(5, Int(5), UByte(5), ULong(5)), ("a", Symbol("a"), Char("a")), (1.5, Float(1.5))])
def test_equal_keys_of_kindred_types_are_one_key(kindred: tuple[object, ...]) -> None:
    keys = Keys("key", 4)
    assert len({keys.of(encode_item(Message(annotations={"key": value}))) for value in kindred}) == 1


def test_true_is_another_key_than_one() -> None:
    keys = Keys("key", 4)
    true, one = (keys.of(encode_item(Message(annotations={"key": value}))) for value in (True, 1))
    assert true != one
