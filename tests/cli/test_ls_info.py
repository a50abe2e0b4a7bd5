"""`rstreams ls` and `rstreams info` at a node, and addresses that a shell completes."""

from __future__ import annotations

import pytest

from tests.cli.commands import Run, node, run
from tests.cli.peers import QUEUES, CommandNode

__all__ = ["node", "run"]

pytestmark = pytest.mark.slow


def test_addresses_are_listed(run: Run, node: CommandNode) -> None:
    queue = node.queue
    run("send", queue, "a", "b")
    listed = {each["name"]: each for each in run("ls", "--json").objects}
    assert len(listed) == QUEUES + 4
    assert set(listed[queue]) == {"name", "kind", "options", "statistics"}
    assert listed[queue]["statistics"]["ready"] == 2
    head, line = run("ls", queue).lines
    assert head.split() == ["name", "kind", "messages", "unsettled", "receivers", "senders"]
    assert line.split() == [queue, "queue", "2", "0", "0", "0"]
    assert {line.split()[1] for line in run("ls", "[en]*").lines[1:]} == {"log", "multicast"}
    assert run("ls", "none*").code == 1


def test_the_peer_is_shown(run: Run, node: CommandNode) -> None:
    (shown,) = run("info", "--json").objects
    assert shown == {
        "url": node.url,
        "product": "rstreams",
        "dialect": "rstreams",
        "properties": {"product": "rstreams"},
        "can": {
            "look at queues": True,
            "read logs from a place": True,
            "filter by SQL": False,
            "list addresses": True,
            "describe addresses": True,
        },
    }
    assert "  look at queues: yes" in run("info").lines


def test_an_address_is_shown_with_its_links(run: Run, node: CommandNode) -> None:
    queue = node.queue
    run("send", queue, "a")
    (shown,) = run("info", queue, "--json").objects
    assert shown["name"] == queue
    assert shown["options"]["capacity"] == 1_000_000
    assert shown["statistics"]["enqueued"] == 1
    assert shown["links"] == []
    lines = run("info", queue).lines
    assert lines[:2] == [f"name: {queue}", "kind: queue"]
    assert "  enqueued: 1" in lines


def test_a_shell_completes_addresses(run: Run, node: CommandNode) -> None:
    for command in ("send", "recv", "info"):
        found = run("__complete", command, "--url", node.url, "ev", url="")
        assert found.lines == ["events\tlog"]
    assert run("__complete", "recv", "--url", "amqp://127.0.0.1:1", "ev", url="") == (0, "", "")
    assert run("__complete", "recv", "--url", "http://", "ev", url="") == (0, "", "")
    assert run("__complete", "recv", "--url", node.url, "--user", "alice", "ev", url="") == (0, "", "")
