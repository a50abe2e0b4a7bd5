"""The pytest plugin, in pytest runs of its own: fixtures, the last line, and the list of what may be not applicable."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # it starts other programs

ROOT = Path(__file__).parents[2]

KIT = """
from rstreams.sources.from_iterable import from_iterable
from rstreams.testing.verification import PublisherVerification, not_applicable

class TestMine(PublisherVerification[int]):
    max_elements_from_publisher = 1

    def create_publisher(self, elements):
        return from_iterable(range(elements))

    def test_of_my_own(self):
        assert self.env
"""


def run(folder: Path, code: str, *options: str) -> tuple[int, list[str]]:
    (folder / "test_it.py").write_text(code, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "pytest_rstreams", "-p", "no:cacheprovider", "-p", "no:cov"]
    done = subprocess.run(
        [*command, "-c", "/dev/null", "--rootdir", str(folder), *options, "test_it.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
    )
    return done.returncode, done.stdout.splitlines()


def test_the_last_line_counts_what_the_kit_showed(tmp_path: Path) -> None:
    code, lines = run(tmp_path, KIT)
    assert lines[-1] == "conformance: 32 passed, 0 failed, 7 not applicable"
    assert "33 passed, 7 skipped" in lines[-2], "a test of the user's own is no part of it"
    assert code == 0


def test_with_workers_of_xdist_each_result_counts_once_and_the_list_holds(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text("", encoding="utf-8")
    code, lines = run(tmp_path, KIT, "-p", "xdist", "-n", "2")
    assert code == 0
    assert lines[-1] == "conformance: 32 passed, 0 failed, 7 not applicable"
    code, lines = run(tmp_path, KIT, "-n", "2", "--conformance-list", str(path))
    assert code == 1
    assert len([line for line in lines if line.startswith("not applicable, and not in the list: ")]) == 7


@pytest.mark.parametrize("text", [None, "only | two"], ids=["no such file", "no such line"])
def test_a_list_that_cannot_be_read_is_a_usage_error(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "list.txt").write_text(text, encoding="utf-8")
    code, lines = run(tmp_path, KIT, "--conformance-list", "list.txt")
    assert code == pytest.ExitCode.USAGE_ERROR
    assert lines == []


def test_a_failure_counts_once(tmp_path: Path) -> None:
    code, lines = run(tmp_path, KIT.replace("range(elements)", "range(elements + 1)"), "-k", "spec101 or spec304")
    assert lines[-1] == "conformance: 0 passed, 1 failed, 1 not applicable"
    assert code == 1


def test_what_is_not_applicable_must_be_in_the_list(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    line = "3.4 | test_untested_spec304_request_should_not_perform_heavy_computations | "
    reason = "the Reactive Streams TCK leaves it untested: no signal shows how heavy a computation was"
    path.write_text(f"# why\n{line}{reason} | TestOther; TestMine\n", encoding="utf-8")
    options = ("--conformance-list", str(path), "-k")
    assert run(tmp_path, KIT, *options, "spec304")[0] == 0
    code, lines = run(tmp_path, KIT, *options, "spec304 or spec305")
    assert code == 1
    assert lines[-2].startswith("not applicable, and not in the list: 3.5 | test_untested_spec305")
    path.write_text(f"{line}{reason} | *\n", encoding="utf-8")
    assert run(tmp_path, KIT, *options, "spec304")[0] == 0


def test_a_run_without_the_kit_has_no_such_line(tmp_path: Path) -> None:
    code, lines = run(tmp_path, "import pytest\n\ndef test_it():\n    pytest.skip('not applicable, they say')\n")
    assert code == 0
    assert "conformance" not in lines[-1]


def test_the_fixtures(tmp_path: Path) -> None:
    test = """
from rstreams.testing import cold

def test_it(virtual_scheduler, probe):
    cold("--a|").subscribe(probe)
    probe.request(1)
    virtual_scheduler.advance(5)
    assert probe.items == ["a"]
    assert probe.completed
"""
    assert run(tmp_path, test)[0] == 0


def test_the_fixture_for_networks_needs_no_mode_of_pytest_trio(tmp_path: Path) -> None:
    test = """
import pytest
import trio

@pytest.mark.trio
async def test_it(faulty_network):
    network = await faulty_network(1)
    stream = await trio.open_tcp_stream("127.0.0.1", network.port)
    with pytest.raises(trio.BrokenResourceError):
        await stream.receive_some()
"""
    assert run(tmp_path, test)[0] == 0


def test_pytest_starts_without_rstreams(tmp_path: Path) -> None:
    test = """
import sys

def test_it():
    assert "pytest_rstreams" in sys.modules
    assert "rstreams" not in sys.modules
"""
    assert run(tmp_path, test)[0] == 0
