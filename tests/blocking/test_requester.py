"""Requests and replies for threads, through a queue of a node in a thread of its own."""

from __future__ import annotations

import threading

import pytest

import rstreams
import rstreams.blocking
from rstreams import Stream
from rstreams.errors import RequestFailed
from rstreams.runtime.portal import start_portal


def test_requests_streams_and_failures() -> None:
    handled_in: list[str] = []

    def answer(item: object) -> object:
        handled_in.append(threading.current_thread().name)
        if item == "bad":
            condition = "shop:sold-out"
            raise RequestFailed(condition)
        return Stream.range(item) if isinstance(item, int) else f"{item}!"

    def respond() -> None:
        other.respond("service", answer, concurrency=2)

    with start_portal("node") as portal, portal.enter(rstreams.Node()) as node:
        node.queue("service")
        url = portal.run(node.listen, "127.0.0.1:0").url
        with rstreams.blocking.connect(url) as connection, rstreams.blocking.connect(url) as other:
            thread = threading.Thread(target=respond)
            thread.start()
            with connection.requester("service", timeout_s=10) as requester:
                assert requester.request("tea") == "tea!"
                assert requester.stream(4).map(str).to_list() == ["0", "1", "2", "3"]
                with pytest.raises(RequestFailed, match="shop:sold-out"):
                    requester.request("bad", timeout_s=5)
                assert requester.late == 0
                assert repr(requester) == "<blocking <rstreams requester of 'service'>>"
            other.drain_and_close()
            thread.join(10)
            assert not thread.is_alive()
    assert len(handled_in) == 3
    assert threading.current_thread().name not in handled_in
