"""Servers that stand between some peers' producers and consumers: on loopback, in a folder that goes with them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks._processes import free_port, wait_until_listening

_INTEROP: Final = Path(__file__).parents[1] / "build" / "interop"
_SBIN: Final = ("/usr/local/sbin", "/usr/sbin", "/sbin")
_ERLANG_BIN: Final = "usr/lib/rabbitmq/bin"


class NotInstalledError(Exception):
    """The server is not on this machine; the text says where it was looked for."""


@dataclass(frozen=True)
class Server:
    """A server that runs.

    Attributes:
        port: Where it listens on 127.0.0.1.
        pids: Its processes whose processor time and memory count.
    """

    port: int
    pids: tuple[int, ...]


@contextmanager
def nats() -> Iterator[Server]:
    """Run nats-server, with room for what a consumer has not read yet."""
    binary, port = _binary("nats-server"), free_port()
    with _folder() as folder:
        settings = "max_payload: 8MB\nmax_pending: 4GB\n"
        (folder / "nats.conf").write_text(settings, encoding="utf-8")
        command = [binary, "--addr", "127.0.0.1", "--port", str(port), "--config", str(folder / "nats.conf")]
        with _running(command, port, folder) as pid:
            yield Server(port, (pid,))


@contextmanager
def nats_jetstream() -> Iterator[Server]:
    """Run nats-server with JetStream: it writes each message to a file, and syncs the file from time to time."""
    binary, port = _binary("nats-server"), free_port()
    with _folder() as folder:
        command = [binary, "--addr", "127.0.0.1", "--port", str(port), "--jetstream", "--store_dir", str(folder)]
        with _running(command, port, folder) as pid:
            yield Server(port, (pid,))


@contextmanager
def redis() -> Iterator[Server]:
    """Run redis-server, which writes nothing to a disk."""
    with _redis("--appendonly", "no") as server:
        yield server


@contextmanager
def redis_synced() -> Iterator[Server]:
    """Run redis-server, which syncs each change to its file before it answers."""
    with _redis("--appendonly", "yes", "--appendfsync", "always") as server:
        yield server


@contextmanager
def _redis(*options: str) -> Iterator[Server]:
    binary, port = _binary("redis-server"), free_port()
    with _folder() as folder:
        command = [binary, "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--dir", str(folder), *options]
        with _running(command, port, folder) as pid:
            yield Server(port, (pid,))


@contextmanager
def rstreams_node() -> Iterator[Server]:
    """Run a node with the addresses of `benchmarks._node_rstreams`, and a store."""
    with _rstreams("store") as server:
        yield server


@contextmanager
def rstreams_node_in_memory() -> Iterator[Server]:
    """Run the same node without a store."""
    with _rstreams() as server:
        yield server


@contextmanager
def _rstreams(*store: str) -> Iterator[Server]:
    port = free_port()
    with _folder() as folder:
        places = [str(folder / name) for name in store]
        command = [sys.executable, "-m", "benchmarks._node_rstreams", str(port), *places]
        with _running(command, port, folder) as pid:
            yield Server(port, (pid,))


@contextmanager
def least_node() -> Iterator[Server]:
    """Run `benchmarks._node_least`: a socket and a store."""
    port = free_port()
    with _folder() as folder:
        command = [sys.executable, "-m", "benchmarks._node_least", str(port), str(folder)]
        with _running(command, port, folder) as pid:
            yield Server(port, (pid,))


@contextmanager
def rabbitmq() -> Iterator[Server]:
    """Run RabbitMQ: this machine's own, or the newest that `make interop` has put into a directory."""
    root = next((_INTEROP / name for name in ("forky", "trixie") if _has_rabbitmq(_INTEROP / name)), None)
    if root is None:
        root = Path("/")
        if not _has_rabbitmq(root):
            msg = "no rabbitmq-server here, and none in build/interop (make interop)"
            raise NotInstalledError(msg)
    port, epmd_port = free_port(), free_port()
    with _folder(None if root == Path("/") else root / "var" / "tmp") as folder:
        inside = f"/{folder.relative_to(root)}"
        environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "LC_ALL": "C.UTF-8",
            "HOME": inside,  # Erlang keeps its cookie there
            "ERL_EPMD_PORT": str(epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": "bench@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_MNESIA_BASE": f"{inside}/mnesia",
            "RABBITMQ_LOG_BASE": f"{inside}/log",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{inside}/enabled_plugins",
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_ALLOW_INPUT": "1",  # the server itself and no shell around it: its pid is what is measured
            "RABBITMQ_SERVER_START_ARGS": "-noinput",
        }
        (folder / "enabled_plugins").write_text("[].", encoding="utf-8")
        epmd = ["/usr/bin/epmd", "-port", str(epmd_port), "-address", "127.0.0.1"]
        with (
            _running(_inside(root, epmd), epmd_port, folder, environment),
            _running(_inside(root, [f"/{_ERLANG_BIN}/rabbitmq-server"]), port, folder, environment) as pid,
        ):
            yield Server(port, (pid,))


def _has_rabbitmq(root: Path) -> bool:
    return (root / _ERLANG_BIN / "rabbitmq-server").exists() and os.geteuid() == 0


def _inside(root: Path, command: Sequence[str]) -> list[str]:
    """Return a command that runs `command` in the directory `root`, with a /proc that goes away with it."""
    if root == Path("/"):
        return list(command)
    script = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
    return ["unshare", "--mount", "sh", "-c", script, str(root), *command]


def _binary(name: str) -> str:
    found = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), *_SBIN]))
    if found is None:
        msg = f"no {name} here (apt-get install {name})"
        raise NotInstalledError(msg)
    return found


@contextmanager
def _folder(inside: Path | None = None) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="rstreams-bench-", dir=inside))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _running(
    command: Sequence[str], port: int, folder: Path, environment: Mapping[str, str] | None = None
) -> Iterator[int]:
    """Run a server while the block lasts, from when it listens; yield its pid."""
    with (folder / "output").open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
    try:
        try:
            wait_until_listening(process, port, folder / "output")
        except RuntimeError as error:
            raise NotInstalledError(str(error)) from None
        yield process.pid
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what it started lives in the same session
        process.wait()
