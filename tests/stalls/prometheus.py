"""Debian's Prometheus, which scrapes the nodes of the stalls and judges the alert rules of examples/monitoring."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

import trio

from benchmarks._processes import free_port, wait_until_listening

RULES: Final = Path(__file__).parents[2] / "examples" / "monitoring" / "alerts.yml"
RANGE_S: Final = 3
"""What stands for the minutes over which a rule looks: a staged stall lasts for seconds."""

PASSWORD: Final = "sesame"  # noqa: S105 - of a node on the loopback, for some seconds


class Prometheus:
    """One process for all stalls.

    Args:
        folder: Where it keeps what it has read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._targets = folder / "targets"
        self._targets.mkdir()
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @staticmethod
    def is_installed() -> bool:
        """Tell whether this machine has it."""
        return shutil.which("prometheus") is not None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        config = {
            "global": {"scrape_interval": "500ms", "evaluation_interval": "500ms"},
            "rule_files": [str(self._folder / "alerts.yml")],
            "scrape_configs": [
                {
                    "job_name": "rstreams",
                    "basic_auth": {"username": "prometheus", "password": PASSWORD},
                    "file_sd_configs": [{"files": [f"{self._targets}/*.json"]}],
                }
            ],
        }
        (self._folder / "alerts.yml").write_text(re.sub(r"\[\d+m\]", f"[{RANGE_S}s]", RULES.read_text()))
        file = self._folder / "prometheus.yml"
        file.write_text(json.dumps(config))  # JSON is YAML
        command = ["prometheus", f"--config.file={file}", f"--storage.tsdb.path={self._folder}/data"]
        command += [f"--web.listen-address=127.0.0.1:{self._port}"]
        log = self._folder / "prometheus.log"
        with log.open("wb") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        wait_until_listening(self._process, self._port, log, 30)

    def end(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def watch(self, port: int) -> None:
        """Scrape the node whose HTTP is at a port of this machine, from now on."""
        file = self._targets / f"{port}.new"
        file.write_text(json.dumps([{"targets": [f"127.0.0.1:{port}"]}]))
        file.rename(self._targets / f"{port}.json")

    async def alerts(self, port: int) -> list[Mapping[str, str]]:
        """Return the labels of each alert whose expression holds for a node, whether or not its time is over."""

        def ask() -> Any:  # noqa: ANN401 - JSON
            with urlopen(f"http://127.0.0.1:{self._port}/api/v1/alerts", timeout=10) as answer:
                return json.load(answer)

        found = await trio.to_thread.run_sync(ask)
        return [
            each["labels"] for each in found["data"]["alerts"] if each["labels"].get("instance") == f"127.0.0.1:{port}"
        ]
