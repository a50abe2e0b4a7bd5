"""The guides to operating and monitoring: the services start the node as it is started, and every counter is told."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from rstreams.cli.__main__ import main
from rstreams.node import PasswordHash, statistics
from tests.net.certificates import Files

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from counter_tables import COUNTERS, counter_tables  # noqa: E402 - tools/ has just been made importable

GUIDES = ROOT / "docs" / "guides"
OPERATE = (GUIDES / "operate.md").read_text(encoding="utf-8")
MONITORING = (GUIDES / "monitoring.md").read_text(encoding="utf-8")


def test_each_command_of_a_service_is_one_of_the_command_line(tmp_path: Path) -> None:
    commands = re.findall(r"/rstreams (node --config /etc/rstreams/node.toml.*)$", OPERATE, re.MULTILINE)
    assert len(commands) == 3
    file = tmp_path / "node.toml"
    file.write_text("[node]\n", encoding="utf-8")
    for command in commands:
        options = command.replace("/etc/rstreams/node.toml", str(file))
        options = options.replace(" --check", "").removesuffix(" > /dev/null")
        assert main([*options.split(), "--check"]) == 0


@pytest.mark.parametrize("is_plain", [False, True])
def test_the_manifest_mounts_what_its_command_reads(tmp_path: Path, is_plain: bool) -> None:  # noqa: FBT001 - a case
    yaml = pytest.importorskip("yaml")
    manifest = Path(__file__).parents[2] / "examples" / "services" / "node.yaml"
    service, stateful = yaml.safe_load_all(manifest.read_text(encoding="utf-8"))
    pod = stateful["spec"]["template"]["spec"]
    [container], [volume] = pod["containers"], pod["volumes"]
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    [config] = re.findall(r"^```toml\n(.*?)```", OPERATE, re.MULTILINE | re.DOTALL)
    if is_plain:
        assert "allow_plain_over_tcp = true" in OPERATE
        config = re.sub(r"^tls = .*$", "allow_plain_over_tcp = true", config, flags=re.MULTILINE)
    described = tomllib.loads(config)
    hashed = PasswordHash.of("sesame").text
    secrets = {"rstreams-config": {"node.toml": config.replace("HASH", hashed).encode()}, "rstreams-tls": {}}
    Files(tmp_path)
    secrets["rstreams-tls"] = {"tls.crt": (tmp_path / "node.pem").read_bytes()}
    secrets["rstreams-tls"]["tls.key"] = (tmp_path / "node.key").read_bytes()
    folder = tmp_path / "mounted"
    for source in volume["projected"]["sources"]:
        files = secrets[source["secret"]["name"]]
        for item in source["secret"].get("items") or [{"key": name, "path": name} for name in files]:
            file = folder / item["path"]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(files[item["key"]])
    arguments = [each.replace(mounts[volume["name"]], str(folder)) for each in container["args"]]
    assert main([*arguments, "--check"]) == 0
    assert Path(described["node"]["store"]).parent == Path(mounts["store"]), "a folder in the volume"
    ports = {each["containerPort"] for each in container["ports"]}
    told = [described["listen"][0]["place"], described["http"]["place"]]
    assert {f"0.0.0.0:{port}" for port in ports} == set(told)
    assert service["spec"]["ports"][0]["port"] in ports
    assert told[1].endswith(f":{container['readinessProbe']['httpGet']['port']}")
    assert container["readinessProbe"]["httpGet"]["scheme"] == "HTTPS"


def test_the_guide_has_every_counter_as_its_class_tells_it() -> None:
    assert counter_tables() in MONITORING, "run `make format`"
    assert {*vars(statistics)["__all__"]} - {kind.__name__ for kind in COUNTERS.values()} <= {
        "AddressStatistics",
        "AddressTotals",
        "WaitsFor",
    }
