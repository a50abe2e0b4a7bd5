"""The guides to operating and monitoring: the services start the node as it is started, and every counter is told."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest

from rstreams.cli.__main__ import main
from rstreams.net.management import NamedSubscriptionInfo
from rstreams.node import statistics

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
OPERATE = (GUIDES / "operate.md").read_text(encoding="utf-8")
MONITORING = (GUIDES / "monitoring.md").read_text(encoding="utf-8")

COUNTERS: dict[str, type] = {
    "Queue": statistics.QueueStatistics,
    "Multicast": statistics.MulticastStatistics,
    "Subscriber of a multicast": statistics.SubscriberStatistics,
    "Named subscription": NamedSubscriptionInfo,
    "Log": statistics.LogStatistics,
    "Partition of a log": statistics.PartitionStatistics,
    "Group of a log": statistics.GroupStatistics,
    "Served stream": statistics.ServedStatistics,
    "Node": statistics.NodeStatistics,
}


def test_each_command_of_a_service_is_one_of_the_command_line(tmp_path: Path) -> None:
    commands = re.findall(r"/rstreams (node --config /etc/rstreams/node.toml.*)$", OPERATE, re.MULTILINE)
    commands += [" ".join(each.split(", ")) for each in re.findall(r"args: \[(.*)\]", OPERATE)]
    assert len(commands) == 4
    file = tmp_path / "node.toml"
    file.write_text("[node]\n", encoding="utf-8")
    for command in commands:
        options = (
            command.replace("/etc/rstreams/node.toml", str(file)).replace(" --check", "").removesuffix(" > /dev/null")
        )
        assert main([*options.split(), "--check"]) == 0


@pytest.mark.parametrize("title", COUNTERS)
def test_the_table_has_every_counter_as_its_class_tells_it(title: str) -> None:
    section = MONITORING.partition(f"\n### {title}\n")[2].partition("\n#")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", section, re.MULTILINE)
    told = (inspect.getdoc(COUNTERS[title]) or "").partition("Attributes:\n")[2]
    entries = re.findall(r"^    (\w+): (.*?)(?=^    \w+: |\Z)", told, re.MULTILINE | re.DOTALL)
    meanings = {name: " ".join(text.split()) for name, text in entries}
    assert rows == [(field.name, meanings[field.name]) for field in fields(COUNTERS[title])]
