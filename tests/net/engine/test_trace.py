"""`RSTREAMS_TRACE=frames`: the trace of a subscription reads like the table, and shows no password."""

from __future__ import annotations

import os
import re
import sys

import pytest
import trio

from rstreams import Node, Stream
from tests.net.token_node import TokenNode

TAKE_THREE = """
import sys
import trio
import rstreams

async def main(url):
    async with rstreams.connect(url) as connection:
        print(await connection.stream("numbers").take(3).to_list())

trio.run(main, sys.argv[1])
"""

PUBLISH_BEHIND_A_PUT = """
import sys
from datetime import UTC, datetime, timedelta
import trio
import rstreams
from rstreams.net.cbs import Token

def token_for(audience):
    return Token("sesame", datetime.now(UTC) + timedelta(hours=1))

async def main(url):
    async with rstreams.connect(url, cbs=token_for) as connection:
        print(await connection.publish("work", rstreams.Stream.of(b"item")))

trio.run(main, sys.argv[1])
"""

PUBLISH_A_KILOBYTE = """
import sys
import trio
import rstreams

async def main(url):
    async with rstreams.connect(url) as connection:
        print(await connection.publish("work", rstreams.Stream.of(b"kilo" * 256)))

trio.run(main, sys.argv[1])
"""

LINK = ("attach", "flow", "transfer", "disposition", "detach")


async def traced(url: str, *, program: str = TAKE_THREE, **environment: str) -> tuple[str, str]:
    """Return what a client in a process of its own prints and traces."""
    without = {
        name: value for name, value in os.environ.items() if not name.startswith(("RSTREAMS_", "PN_TRACE", "COV"))
    }
    done = await trio.run_process(
        [sys.executable, "-c", program, url],
        env={**without, **environment},
        capture_stdout=True,
        capture_stderr=True,
    )
    return done.stdout.decode(), done.stderr.decode()


def frames(trace: str) -> list[str]:
    return [f"{way} {name}" for way, name in re.findall(r"(->|<-) @(\w+)", trace)]


@pytest.mark.slow
async def test_the_trace_of_a_subscription_reads_like_the_mapping_table() -> None:
    async with Node() as node:
        node.serve("numbers", Stream.generate(0, lambda n: (n, n + 1)))
        listener = await node.listen("127.0.0.1:0")
        printed, trace = await traced(listener.url, RSTREAMS_TRACE="frames")
    assert printed == "[0, 1, 2]\n"
    link = [each for each in frames(trace) if each.split()[1] in LINK]
    assert link == [
        "-> attach",
        "<- attach",
        "-> flow",
        "<- transfer",
        "<- transfer",
        "<- transfer",
        "-> disposition",
        "-> detach",
        "<- detach",
    ]
    everything = frames(trace)
    assert everything.index("-> open") < everything.index("-> begin") < everything.index("-> attach")
    assert everything.index("-> detach") < everything.index("-> close")
    assert everything[-1] == "<- close"
    flow = next(line for line in trace.splitlines() if "-> @flow" in line)
    assert "link-credit=3" in flow, "three items were asked for, and no more"


@pytest.mark.slow
async def test_a_trace_shows_messages() -> None:
    async with Node() as node:
        node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        printed, trace = await traced(listener.url, program=PUBLISH_A_KILOBYTE, RSTREAMS_TRACE="frames")
    assert printed == "PublishResult(accepted=1)\n"
    transfer = next(line for line in trace.splitlines() if "-> @transfer" in line)
    assert "kilokilo" in transfer


@pytest.mark.slow
async def test_a_trace_with_credentials_shows_the_same_and_no_password() -> None:
    async with Node(users={"alice": "sesame"}) as node:
        node.serve("numbers", Stream.generate(0, lambda n: (n, n + 1)))
        listener = await node.listen("127.0.0.1:0")
        url = f"amqp://alice:sesame@127.0.0.1:{listener.port}"
        printed, trace = await traced(url, RSTREAMS_TRACE="frames")
    assert printed == "[0, 1, 2]\n"
    assert "-> attach" in frames(trace)
    assert "sesame" not in trace
    assert "sasl" not in trace.lower()


@pytest.mark.slow
async def test_the_engines_own_trace_shows_no_password_either() -> None:
    async with Node(users={"alice": "sesame"}) as node:
        node.serve("numbers", Stream.generate(0, lambda n: (n, n + 1)))
        listener = await node.listen("127.0.0.1:0")
        url = f"amqp://alice:sesame@127.0.0.1:{listener.port}"
        printed, trace = await traced(url, PN_TRACE_FRM="1", PN_TRACE_RAW="1", PN_LOG="all")
    assert printed == "[0, 1, 2]\n"
    assert "sesame" not in trace


@pytest.mark.slow
async def test_no_trace_shows_a_token_and_it_goes_on_behind_it() -> None:
    async with TokenNode() as node:
        node.tokens.answer = lambda put: (202, put.value)
        node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        environment = {"RSTREAMS_TRACE": "frames", "PN_TRACE_RAW": "1", "PN_LOG": "all"}
        printed, trace = await traced(listener.url, program=PUBLISH_BEHIND_A_PUT, **environment)
        assert [put.value for put in node.tokens.puts] == ["sesame"]
    assert printed == "PublishResult(accepted=1)\n"
    assert "sesame" not in trace
    assert 'address="work"' in trace, "what comes behind it is traced"


@pytest.mark.slow
@pytest.mark.parametrize("environment", [{}, {"RSTREAMS_TRACE": "0"}])
async def test_nothing_is_traced_unless_it_is_asked_for(environment: dict[str, str]) -> None:
    async with Node() as node:
        node.serve("numbers", Stream.range(5))
        listener = await node.listen("127.0.0.1:0")
        printed, trace = await traced(listener.url, **environment)
    assert (printed, trace) == ("[0, 1, 2]\n", "")
