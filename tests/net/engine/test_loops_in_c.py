"""The module in C takes nothing that it does not know."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from cproton_ffi import ffi, lib

from rstreams._codec.c_modules import load
from rstreams._codec.section_heads import body_at
from rstreams.net._proton import loops
from tests.net.engines import Engines

COUNT = len(loops._compiled.FUNCTIONS)


def arrivals() -> Any:  # noqa: ANN401 - C's own
    return loops._compiled.new_arrivals(1, True)  # noqa: FBT003 - C's


@pytest.mark.parametrize("arguments", [(0, True), ("link", True), (None, True), (1.5, True), (1,), ()])
def test_what_is_no_pointer_is_refused(arguments: tuple[Any, ...]) -> None:
    with pytest.raises((TypeError, ValueError)):
        loops._compiled.new_arrivals(*arguments)


@pytest.mark.parametrize("wrong", [0, 1, None, b"12345678"])
def test_what_is_no_queue_of_messages_is_refused(wrong: object) -> None:
    calls: dict[str, tuple[Any, ...]] = {
        "read": (1, 0),
        "read_in_parts": (),
        "read_part": (),
        "current": (False,),
        "drop": (False,),
        "close": (),
    }
    for call, rest in calls.items():
        with pytest.raises((TypeError, ValueError)):
            getattr(loops._compiled, call)(wrong, *rest)


def test_a_delivery_that_is_no_pointer_is_refused() -> None:
    for wrong in ([0], ["delivery"], (1,), None):
        with pytest.raises((TypeError, ValueError)):
            loops._compiled.settle(wrong, lib.PN_ACCEPTED)


@pytest.mark.parametrize("secret", [b"", b"1234567", b"123456789", "12345678", None])
def test_a_secret_of_another_size_is_refused(secret: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        loops._compiled.new_beside(1, secret, body_at)


@pytest.mark.parametrize("beside", [0, 1, None, b"12345678"])
def test_what_no_connection_has_beside_its_engine_is_refused(beside: object) -> None:
    calls: dict[str, tuple[Any, ...]] = {
        "send": (1, [], [], False, False, 0),
        "send_part": (1, b"", 0, False, False, False, 100, 100),
        "part_bytes": (),
        "feed": (b"x",),
        "output": (memoryview(bytearray(1)), 0, len),
        "forget": (1,),
        "expect": (0, 0, None),
        "take": (b"x", 0, 8),
        "rooms": (),
        "take_rooms": (0,),
        "end_frames": (),
    }
    for call, arguments in calls.items():
        with pytest.raises((TypeError, ValueError)):
            getattr(loops._compiled, call)(beside, *arguments)


@pytest.mark.parametrize("addresses", [(), (1,) * 20, (0,) * COUNT, ("pn_link_recv",) * COUNT, [1] * COUNT])
def test_a_table_that_does_not_fit_is_refused_and_the_old_one_stays(addresses: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        loops._compiled.bind(addresses, 1, 2, 3, (), len, len)
    Engines().free()


@pytest.mark.parametrize("kinds", [(-1,), (64,), ("open",), [1]])
def test_kinds_of_events_that_cannot_be_are_refused(kinds: object) -> None:
    addresses = tuple(loops._address(ffi.addressof(lib, name)) for name, _ in loops._compiled.FUNCTIONS)
    with pytest.raises((TypeError, ValueError)):
        loops._compiled.bind(addresses, 1, 2, 3, kinds, len, len)
    Engines().free()


@pytest.mark.parametrize(
    ("name", "declared", "found"),
    [
        ("pn_link_recv", "int(*)(struct pn_link_t *, char *, size_t)", r"ssize_t\(\*\)"),
        ("pn_no_such_function", "void(*)(void)", "None"),
    ],
)
def test_a_module_built_for_another_engine_is_refused(name: str, declared: str, found: str) -> None:
    with pytest.raises(ImportError, match=rf"^the engine's {name} is {found}.*python-qpid-proton 0\.40$"):
        loops.bind(SimpleNamespace(FUNCTIONS=((name, declared),)))


@pytest.mark.parametrize(
    ("name", "interface", "said"),
    [("_no_such_module", 1, "_no_such_module is missing, which is in C"), ("_values", 0, "of another version")],
)
def test_a_module_that_is_missing_or_of_another_version_is_told(name: str, interface: int, said: str) -> None:
    with pytest.raises(ImportError, match=said):
        load(name, interface)


def test_nothing_runs_before_the_functions_are_known() -> None:
    program = f"""
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location("_loops", {loops._compiled.__file__!r})
module = module_from_spec(spec)
spec.loader.exec_module(module)
beside, arrivals = module.new_beside(1, bytes(8), None), module.new_arrivals(1, True)
for call in (
    lambda: module.read(arrivals, 1, 0), lambda: module.read_part(arrivals), lambda: module.settle([1], 1),
    lambda: module.send(beside, 1, [], [], False, False, 0),
    lambda: module.settle_accepted(b"12345678"), lambda: module.note_events(1),
    lambda: module.feed(beside, b"x"), lambda: module.output(beside, memoryview(bytearray(1)), 0, len),
    lambda: module.take(beside, b"x", 0, 8), lambda: module.current(arrivals, False), lambda: module.begin(1, 1),
    lambda: module.end_frames(beside), lambda: module.send_part(beside, 1, b"", 0, False, False, False, 9, 9),
):
    try:
        call()
    except RuntimeError as error:
        assert str(error) == "bind comes first"
    else:
        raise AssertionError(call)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=50)
