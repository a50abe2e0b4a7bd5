"""The guide to Azure: its code is run against a node that asks for tokens as Azure does, and prints what it says."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
import trio

from rstreams import Message, Stream
from rstreams.net.dialects.azure import dead_letter_queue
from rstreams.node import Address, LinkRequest, Supply
from tests.docs.examples import examples_of
from tests.net.token_node import TokenNode

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guides" / "azure.md").read_text(encoding="utf-8")
EXAMPLES = examples_of("docs/guides/azure.md")

PARTITION = "readings/ConsumerGroups/$Default/Partitions/0"


class Partition(Address):
    """Events with their offsets, of which a link gets those behind the offset in its filter."""

    kind = "partition"

    def __init__(self) -> None:
        self.name = PARTITION

    def supply(self, link: LinkRequest) -> Supply:
        ((name, condition),) = link.attach.filters.items()
        found = re.fullmatch(r"amqp\.annotation\.x-opt-offset > '(-?\d+)'", str(condition.value))
        assert found is not None
        events = [Message(b"reading %d" % n, annotations={"x-opt-offset": str(112 * n)}) for n in range(9)]
        behind = [event for event in events if int(event.annotations["x-opt-offset"]) > int(found[1])]
        return Supply(Stream.from_iterable(behind), filters={name: condition})


@pytest.mark.slow
@pytest.mark.parametrize("example", range(len(EXAMPLES)))
async def test_an_example_prints_what_it_says(example: int) -> None:
    async with TokenNode() as node:
        node.add(Partition())
        node.queue(dead_letter_queue("orders"))
        node.queue("orders", dead_letters=dead_letter_queue("orders"))
        listener = await node.listen("127.0.0.1:0")
        place = f"Endpoint=sb://127.0.0.1:{listener.port};UseDevelopmentEmulator=true"
        key = f"{place};SharedAccessKeyName=Root;SharedAccessKey=c2VjcmV0"
        code, printed = EXAMPLES[example]
        done = await trio.run_process(
            [sys.executable, "-W", "error", "-c", code],
            env={**os.environ, "EVENT_HUBS": key, "SERVICE_BUS": key},
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        assert done.stdout.decode() == printed
        assert node.refused == []
