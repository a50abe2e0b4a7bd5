"""RabbitMQ out of a Debian package in a directory of its own, one or several; nothing of it is left on the machine."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks._processes import free_port
from tests.interop.processes import Server, chrooted

_ERLANG_BIN: Final = "/usr/lib/rabbitmq/bin"


class Home:
    """A new directory for the state of brokers, and the epmd by which they find each other.

    Attributes:
        root: The Debian that the directory is in.
        path: The directory.
        inside: The directory as the brokers see it.
        environment: What their processes need of it.
    """

    def __init__(self, root: Path) -> None:
        """Make the directory in `root`."""
        self.root = root
        self.path = Path(tempfile.mkdtemp(prefix="rstreams-interop-", dir=root / "var/tmp"))
        self.inside = "/" + str(self.path.relative_to(root))
        port = free_port()
        self.environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "LC_ALL": "C.UTF-8",
            "HOME": self.inside,  # Erlang keeps its cookie there
            "ERL_CRASH_DUMP_SECONDS": "0",
            "ERL_EPMD_PORT": str(port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }
        self.epmd = Server(
            chrooted(root, "/usr/bin/epmd", "-port", str(port), "-address", "127.0.0.1"),
            port=port,
            log=self.path / "epmd",
            environment=self.environment,
        )

    def remove(self) -> None:
        """End the epmd, and remove the directory."""
        self.epmd.stop()
        shutil.rmtree(self.path, ignore_errors=True)


class RabbitMQ:
    """One broker, with its state in a new directory; user guest, password guest.

    Attributes:
        version: RabbitMQ's own.
        name: Its name as a node of Erlang.
    """

    def __init__(
        self,
        root: Path,
        *,
        plugins: str = "",
        certificates: Sequence[Path] = (),
        name: str = "interop",
        home: Home | None = None,
    ) -> None:
        """Prepare a broker installed in `root`.

        Args:
            root: A Debian with the package rabbitmq-server.
            plugins: Names of plugins to enable, with commas between.
            certificates: The files with the authority's certificate, the broker's certificate and its key, for TLS at
                `tls_port`; none: no TLS.
            name: The first part of `name`.
            home: Where it keeps its state beside other brokers; the epmd there runs already. None: a home of its own.
        """
        self.version = next((root / "usr/lib/rabbitmq/lib").glob("rabbitmq_server-*")).name.partition("-")[2]
        self.name = f"{name}@localhost"
        self._root = root
        self._is_alone = home is None
        self._home = home or Home(root)
        self._state = self._home.path / name
        self._state.mkdir()
        (self._state / "enabled_plugins").write_text(f"[{plugins}].")
        inside = f"{self._home.inside}/{name}"
        port = free_port()
        self._environment = self._home.environment | {
            "RABBITMQ_NODENAME": self.name,
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_MNESIA_BASE": f"{inside}/mnesia",
            "RABBITMQ_LOG_BASE": f"{inside}/log",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{inside}/enabled_plugins",
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_ALLOW_INPUT": "1",  # run the server itself and no shell around it: its pid is ours to end
            "RABBITMQ_SERVER_START_ARGS": "-noinput",
        }
        self.tls_port = free_port() if certificates else 0
        if certificates:
            self._environment["RABBITMQ_CONFIG_FILE"] = f"{inside}/rabbitmq.conf"
            self._listen_with_tls(inside, certificates)
        command = chrooted(root, f"{_ERLANG_BIN}/rabbitmq-server")
        self._server = Server(command, port=port, log=self._state / "output", environment=self._environment)

    @property
    def url(self) -> str:
        """Where a client connects to."""
        return f"amqp://guest:guest@127.0.0.1:{self._server.port}"

    @property
    def anonymous_url(self) -> str:
        """Where a client without credentials connects to."""
        return self._server.url

    @property
    def is_running(self) -> bool:
        """Whether it was started, and neither stopped nor killed."""
        return self._server.is_running

    def start(self) -> None:
        """Start the broker; again after `kill`, with what it had kept."""
        if self._is_alone:
            self._home.epmd.start()
        self._start_server()

    def restart(self) -> None:
        """End the broker in order and start it again.

        A quorum queue is known to its disk only some seconds after it was declared, or when the broker has ended.
        """
        self._server.stop()
        self._start_server()

    def stop(self) -> None:
        """End the broker and forget its state; one in the home of others leaves that to the home."""
        self._server.stop()
        if self._is_alone:
            self._home.remove()

    def kill(self) -> None:
        """End the broker as a power cut would."""
        self._server.kill()
        if self._is_alone:
            self._home.epmd.kill()

    def declare(self, *names: str, type: str = "classic", arguments: Mapping[str, str | int] = {}) -> None:  # noqa: A002
        """Make durable queues, for a broker that cannot be asked to over AMQP 1.0."""
        table = [("x-queue-type", type), *arguments.items()]
        rows = (
            f'{{<<"{key}">>, longstr, <<"{value}">>}}' if isinstance(value, str) else f'{{<<"{key}">>, long, {value}}}'
            for key, value in table
        )
        queues = ",".join(f'<<"{name}">>' for name in names)
        self.evaluate(
            f'[rabbit_amqqueue:declare(rabbit_misc:r(<<"/">>, queue, Q), true, false, [{",".join(rows)}], none,'
            f' <<"guest">>) || Q <- [{queues}]], ok.'
        )

    def evaluate(self, expression: str) -> str:
        """Evaluate an Erlang expression in the broker."""
        return self.control("eval", expression)

    def _listen_with_tls(self, inside: str, certificates: Sequence[Path]) -> None:
        names = ("cacertfile", "certfile", "keyfile")
        for name, file in zip(names, certificates, strict=True):
            shutil.copyfile(file, self._state / name)
        lines = [f"listeners.ssl.1 = 127.0.0.1:{self.tls_port}", "ssl_options.verify = verify_none"]
        lines += [f"ssl_options.{name} = {inside}/{name}" for name in names]
        (self._state / "rabbitmq.conf").write_text("\n".join(lines) + "\n")

    def _start_server(self) -> None:
        self._server.start()
        self.control("await_startup")  # it listens before it is ready

    def control(self, *arguments: str) -> str:
        """Return what `rabbitmqctl` prints."""
        command = chrooted(self._root, f"{_ERLANG_BIN}/rabbitmqctl", *arguments)
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
