"""The guide to services: its program ends in order at SIGTERM, and its other example prints what the guide says."""

from __future__ import annotations

import re
import signal
import subprocess
import sys

import pytest

from rstreams import Node, Stream, connect
from rstreams.runtime.portal import start_portal
from tests.docs.examples import ROOT, for_trio

PAGE = (ROOT / "docs" / "guides" / "service.md").read_text(encoding="utf-8")
SERVICE, DRAIN = re.findall(r"```python asyncio\n(.*?)```", PAGE, re.DOTALL)
PLACE = "amqp://127.0.0.1:5672"


async def send_order(url: str) -> None:
    async with connect(url) as connection:
        await connection.publish("orders", Stream.of("a lamp"))


@pytest.mark.slow  # it starts another program
@pytest.mark.parametrize("code", [SERVICE, for_trio(SERVICE)], ids=["asyncio", "trio"])
def test_the_service_ends_in_order_at_sigterm(code: str) -> None:
    assert PLACE in code
    with start_portal("node") as portal, portal.enter(Node()) as node:
        orders = node.queue("orders")
        url = portal.run(node.listen, "127.0.0.1:0").url
        command = [sys.executable, "-W", "error", "-c", code.replace(PLACE, url)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as service:
            portal.run(send_order, url)
            assert service.stdout is not None
            assert service.stdout.readline() == "handled a lamp\n"
            service.send_signal(signal.SIGTERM)
            rest = service.communicate(timeout=50)
        assert (service.returncode, "Traceback" in rest[1]) == (0, False)
        assert orders.statistics().accepted == 1


@pytest.mark.parametrize("code", [DRAIN, for_trio(DRAIN)], ids=["asyncio", "trio"])
def test_a_drained_connection_has_settled_all(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    [printed] = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(code, "service.md", "exec"), {"__name__": __name__})  # noqa: S102 - the guide is ours
    assert capsys.readouterr().out == printed
