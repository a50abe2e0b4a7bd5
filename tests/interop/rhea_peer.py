"""rhea, the AMQP 1.0 library of Node.js, in processes of its own: as a server, and as a client that does one thing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Final

from benchmarks._processes import free_port
from tests.interop.processes import Event, Server, told_by

SCRIPTS: Final = Path(__file__).parent / "rhea"


def _node() -> str:
    found = shutil.which("node")
    assert found is not None, "rhea is installed, and Node.js not"
    return found


class RheaServer:
    """rhea listening; what an address does is in its name up to the first colon, see `rhea/listener.js`."""

    def __init__(self, installed: Path, log: Path) -> None:
        """Prepare the server of the rhea in `installed`."""
        port = free_port()
        script = str(SCRIPTS / "listener.js")
        command = [_node(), script, str(installed / "node_modules" / "rhea"), str(port)]
        self._log = log
        self.server = Server(command, port=port, log=log)

    @property
    def url(self) -> str:
        """Where a client connects to."""
        return self.server.url

    def events(self, address: str, *names: str) -> list[Event]:
        """Return what the server has told of an address so far: all, or the events of some names."""
        lines = [json.loads(line) for line in self._log.read_text().splitlines() if line.startswith("{")]
        return [line for line in lines if line["address"] == address and (not names or line["event"] in names)]


async def rhea_client(
    installed: Path, port: int, what: str, address: str, *credentials: str
) -> tuple[int, list[Event]]:
    """Have a rhea client do one thing, see `rhea/client.js`; return its exit code and what it told."""
    rhea = str(installed / "node_modules" / "rhea")
    return await told_by([_node(), str(SCRIPTS / "client.js"), rhea, str(port), what, address, *credentials])
