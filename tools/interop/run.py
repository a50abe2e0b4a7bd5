"""Runs the tests against real AMQP peers and ends with one line of counts: `make interop`.

Arguments go on to pytest, so `python tools/interop/run.py -k rhea` runs the tests of one peer.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

ROOT: Final = Path(__file__).parents[2]
BUILD: Final = ROOT / "build" / "interop"
RESULTS: Final = BUILD / "results.xml"
PEERS: Final = BUILD / "peers"
"""A line for each peer that was there, written by the tests."""


def main(arguments: list[str]) -> int:
    """Install the peers, run the tests, count; return the exit code."""
    subprocess.run([ROOT / "tools" / "interop" / "install.sh"], check=True)
    RESULTS.unlink(missing_ok=True)
    PEERS.unlink(missing_ok=True)
    options = ["-m", "broker", "tests/interop", f"--junitxml={RESULTS}", "-q", "--timeout=120", "-r", "fEs"]
    code = subprocess.run([sys.executable, "-m", "pytest", *options, *arguments], cwd=ROOT, check=False).returncode
    if not RESULTS.exists():
        print("interop: 0 passed, 1 failed, 0 skipped (the tests could not be run)")
        return 1
    suite = next(ET.parse(RESULTS).iter("testsuite"))  # noqa: S314 - pytest wrote it
    total, failures, errors, skipped = (int(suite.get(key, 0)) for key in ("tests", "failures", "errors", "skipped"))
    failed = failures + errors
    if code != 0 and failed == 0:
        failed = 1  # pytest itself failed, or found no test
    peers = PEERS.read_text().splitlines() if PEERS.exists() else []
    absent = [f"no {path.stem}" for path in sorted(BUILD.glob("*.skipped"))]
    passed = max(0, total - failures - errors - skipped)
    print(f"interop: {passed} passed, {failed} failed, {skipped} skipped (peers: {', '.join(peers + absent)})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
