"""ActiveMQ Classic out of Debian's packages, with the AMQP transport that `tools/interop/activemq.sh` adds to it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from benchmarks._processes import free_port
from tests.interop.processes import Server, chrooted

_JARS: Final = (
    "activemq-broker",
    "activemq-client",
    "activemq-console",
    "activemq-openwire-legacy",
    "geronimo-j2ee-management-1.1-spec",
    "geronimo-jms_1.1_spec",
    "hawtbuf",
    "proton-j",
    "slf4j-api",
    "slf4j-simple",
)


def activemq_version(root: Path) -> str:
    """Return the version of the ActiveMQ in `root`."""
    jar = next((root / "usr/share/java").glob("activemq-broker-*.jar"))
    return jar.stem.removeprefix("activemq-broker-")


def activemq(root: Path, log: Path) -> Server:
    """Prepare a broker installed in `root` that keeps all in memory and lets everybody in."""
    port = free_port()
    classes = ":".join(["/opt/activemq/classes", *(f"/usr/share/java/{jar}.jar" for jar in _JARS)])
    java = ["/usr/bin/java", "-Xmx256m", "-cp", classes]
    broker = f"broker:(amqp://127.0.0.1:{port})/interop?persistent=false&useJmx=false"
    command = chrooted(root, *java, "org.apache.activemq.console.Main", "start", broker)
    return Server(command, port=port, log=log)
