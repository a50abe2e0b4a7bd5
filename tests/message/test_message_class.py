"""`Message` with the codec in C: a dataclass like any other, and functions that each module has for itself."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from dataclasses import dataclass, fields, replace

import pytest

import rstreams
from rstreams import message as codec
from rstreams.message import Message

python, in_c = codec._IN_PYTHON, codec._codec


def test_the_quick_init_is_the_one_of_a_dataclass() -> None:
    signature = inspect.signature(Message)
    assert list(signature.parameters) == [each.name for each in fields(Message)]
    assert str(signature).startswith("(body: 'Any' = None, id: 'MessageId | None' = None")
    assert signature.parameters["properties"].default is not inspect.Parameter.empty
    assert Message.__init__.__qualname__ == "Message.__init__"
    assert Message.__init__.__module__ == "rstreams.message"
    assert Message.__match_args__[0] == "body"
    message = Message(b"x", "1", durable=True)
    assert (message.body, message.id, message.durable, message.priority) == (b"x", "1", True, 4)
    assert Message().properties == {}
    assert Message().properties is not Message().properties
    assert hash(Message(properties=(), annotations=())) == hash(Message(properties=(), annotations=()))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Message\(\) got an unexpected keyword argument 'nope'; it has body, id"):
        Message(nope=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"Message\(\) got too many positional arguments"):
        Message(*range(22))


class SubMessage(Message):
    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Order(Message):
    number: int = 0


def test_classes_below_message() -> None:
    order = Order(b"x", id="1", number=5)
    assert (order.body, order.id, order.number, order.annotations) == (b"x", "1", 5, {})
    assert replace(order, number=6) == Order(b"x", id="1", number=6)
    assert pickle.loads(pickle.dumps(order)) == order  # noqa: S301 - its own bytes
    assert in_c.encode_item(order) == python.encode_item(order) == in_c.encode_item(Message(b"x", id="1"))
    assert SubMessage(b"x", subject="s").subject == "s"

    class WithInit(Message):
        def __init__(self, number: int) -> None:
            super().__init__(b"%d" % number, id=number)

    assert (WithInit(7).body, WithInit(7).id) == (b"7", 7)


def test_the_quick_init_takes_only_messages() -> None:
    with pytest.raises(TypeError):
        Message.__init__(object(), b"x")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["encode_item", "decode_body", "decode_message", "with_delivery_count"])
def test_the_functions_are_found_by_pickle(name: str) -> None:
    function = getattr(codec, name)
    pickled = pickle.dumps(function)
    assert pickle.loads(pickled) is function  # noqa: S301 - its own bytes
    assert b"rstreams.message" in pickled


TWICE = """
import sys
import rstreams.message as first
del sys.modules["rstreams.message"]
import rstreams.message as second
assert first is not second and first.Message is not second.Message
for module in (first, second):
    encoded = module.encode_item(module.Message(b"x", id="1"))
    assert type(module.decode_message(encoded)) is module.Message, "a message of another module"
    assert type(module.Message(b"x")) is module.Message
print("each its own")
"""


def test_a_module_that_is_imported_again_has_its_own_classes() -> None:
    done = subprocess.run([sys.executable, "-c", TWICE], capture_output=True, text=True, check=False)
    assert done.stdout == "each its own\n", done.stderr


def test_another_interpreter_has_its_own_classes() -> None:
    pytest.importorskip("_xxsubinterpreters")
    program = """
import _xxsubinterpreters as interpreters
from rstreams.message import Message, decode_message, encode_item
other = interpreters.create(isolated=False)
interpreters.run_string(other, '''
import sys, types
sys.path[:0] = {path!r}
package = sys.modules["rstreams"] = types.ModuleType("rstreams")  # the engine works in the first interpreter only
package.__path__ = {package!r}
from rstreams.message import Message, decode_message, encode_item
assert type(decode_message(encode_item(Message(b"x", id="1")))) is Message
''')
interpreters.destroy(other)
assert type(decode_message(encode_item(Message(b"x", id="1")))) is Message
print("each its own")
"""
    program = program.replace("{path!r}", repr(sys.path)).replace("{package!r}", repr(list(rstreams.__path__)))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "each its own\n", done.stderr
