"""The loops over the engine are written twice, in C and in Python: what is at stake in them is tested over both."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rstreams.net._proton import host_connection, loops
from rstreams.protocol.outgoing_items import OutgoingItems
from tests.compiled import compiled

BOTH_WAYS = {
    "test_differential",
    "test_engine_limits",
    "test_flow_answers",
    "test_hostile_peers",
    "test_loops",
    "test_message_formats",
    "test_messages_beside",
    "test_odd_frames",
    "test_random_frames",
    "test_refused_frames",
    "test_scripted_ends",
    "test_scripted_faults",
    "test_scripted_peer",
    "test_session_storms",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.module.__name__.rpartition(".")[2] in BOTH_WAYS:
        metafunc.parametrize("language", ["C", "Python"], indirect=True, scope="module")


@pytest.fixture(scope="module", autouse=True)
def language(request: pytest.FixtureRequest) -> Iterator[str]:
    """Have every engine made here use the loops written in one language."""
    wanted = getattr(request, "param", loops.LOOPS)
    if wanted == "C":
        compiled(loops._compiled)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(host_connection, "choose_loops", loops.CompiledLoops if wanted == "C" else loops.PythonLoops)
        yield wanted


@pytest.fixture
def heedless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have senders of this process send what the receiver does not take, as some peers do."""
    monkeypatch.setattr(OutgoingItems, "before_too_large", lambda _items, count, _most_bytes: count)
