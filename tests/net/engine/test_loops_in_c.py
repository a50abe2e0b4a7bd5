"""The module in C takes nothing that it does not know."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from cproton_ffi import ffi, lib

from rstreams._codec.c_modules import load
from rstreams.net._proton import loops
from tests.net.engines import Engines

COUNT = len(loops._compiled.FUNCTIONS)


@pytest.fixture
def of_c() -> Iterator[Any]:
    """The loops of a connection that nothing happens on."""
    engines = Engines()
    yield engines.one.engine._host.loops
    engines.free()


@pytest.mark.parametrize("arguments", [(0, True), ("link", True), (None, True), (1.5, True), (1,), ()])
def test_what_is_no_pointer_is_refused(of_c: Any, arguments: tuple[Any, ...]) -> None:  # noqa: ANN401 - C's own
    with pytest.raises((TypeError, ValueError)):
        of_c.arrivals(*arguments)


def test_what_is_no_queue_of_messages_is_refused(of_c: Any) -> None:  # noqa: ANN401 - C's own
    for wrong in (0, of_c, b"12345678"):
        with pytest.raises(TypeError, match="the messages of a link are needed"):
            of_c.expect(0, 0, wrong)
    with pytest.raises(TypeError, match="cannot create"):
        type(of_c.arrivals(1, True))()  # noqa: FBT003 - C's


def test_a_delivery_that_is_no_pointer_is_refused(of_c: Any) -> None:  # noqa: ANN401 - C's own
    for wrong in ([0], ["delivery"], (1,), None):
        with pytest.raises((TypeError, ValueError)):
            of_c.settle(wrong, lib.PN_ACCEPTED)


@pytest.mark.parametrize("secret", [b"", b"1234567", b"123456789", "12345678", None])
def test_a_secret_of_another_size_is_refused(secret: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        loops._compiled.Loops(1, secret)


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("send", (1, [], (), False, False, 0)),
        ("send", (0, [], [], False, False, 0)),
        ("send_part", (1, "text", 0, False, False, False, 100, 100)),
        ("output", (bytes(1), 1, 0, len)),
        ("forget", (0,)),
        ("expect", (-1, "handle", None)),
        ("take", (b"x", 2, 8)),
        ("feed", ("text",)),
        ("take_rooms", (1,)),
        ("begin", (0, 1)),
    ],
)
def test_what_the_loops_do_not_know_is_refused(of_c: Any, call: str, arguments: tuple[Any, ...]) -> None:  # noqa: ANN401 - C's own
    with pytest.raises((TypeError, ValueError, BufferError, OverflowError)):
        getattr(of_c, call)(*arguments)


@pytest.mark.parametrize("addresses", [(), (1,) * 20, (0,) * COUNT, ("pn_link_recv",) * COUNT, [1] * COUNT])
def test_a_table_that_does_not_fit_is_refused_and_the_old_one_stays(addresses: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        loops._compiled.bind(addresses, 1, 2, 3, ())
    Engines().free()


@pytest.mark.parametrize("kinds", [(-1,), (64,), ("open",), [1]])
def test_kinds_of_events_that_cannot_be_are_refused(kinds: object) -> None:
    addresses = tuple(loops.address_of(ffi.addressof(lib, name)) for name, _ in loops._compiled.FUNCTIONS)
    with pytest.raises((TypeError, ValueError)):
        loops._compiled.bind(addresses, 1, 2, 3, kinds, len)
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
try:
    module.Loops(1, bytes(8))
except RuntimeError as error:
    assert str(error) == "bind comes first"
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=50)
