"""Two streams of one driver that read the same queue are warned of."""

from __future__ import annotations

import sys

import pytest
from rstreams_spark import _one_reader
from rstreams_spark._one_reader import OneReader


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has names of sockets without files")
def test_the_second_reader_of_a_queue_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(_one_reader, "say", lambda _event, where, what: said.append(f"{where}: {what}"))
    first, other = OneReader("the first", "h:1 in"), OneReader("the other", "h:1 out")
    assert said == []
    second = OneReader("the second", "h:1 in")
    assert len(said) == 1
    assert said[0].startswith("the second: another stream of this driver reads this queue")
    for reader in (first, other, second):
        reader.close()
    OneReader("the third", "h:1 in").close()
    assert len(said) == 1
