"""The loops over the engine are tested together with their oracle, which is in Python."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rstreams.net._proton import host_connection
from rstreams.net._proton.loops import new_loops
from rstreams.protocol.outgoing_items import OutgoingItems
from tests.oracles.loops import PythonLoops

BOTH_WAYS = {"test_differential", "test_loops", "test_random_frames"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.module.__name__.rpartition(".")[2] in BOTH_WAYS:
        metafunc.parametrize("language", ["C", "Python"], indirect=True, scope="module")


@pytest.fixture(scope="module", autouse=True)
def language(request: pytest.FixtureRequest) -> Iterator[str]:
    """Have every engine made here use the loops written in one language."""
    wanted = getattr(request, "param", "C")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(host_connection, "new_loops", new_loops if wanted == "C" else PythonLoops)
        yield wanted


@pytest.fixture
def heedless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have senders of this process send what the receiver does not take, as some peers do."""
    monkeypatch.setattr(OutgoingItems, "before_too_large", lambda _items, count, _most_bytes: count)
