"""What `tools/setup.sh` tells: each step, nothing if there is none, and the end of the log if one fails."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # it starts other programs

ROOT = Path(__file__).resolve().parents[2]
MAKING = "setup: making .venv with Python 3.99.0 (about 10 seconds)"
INSTALLING = "setup: installing rstreams with [dev] and compiling the AMQP engine (about three minutes the first time)"

# An interpreter that makes a .venv of itself, and whose pip does as FAKE_PIP says.
PYTHON = """#!/bin/sh
case "$*" in
    --version) echo Python 3.99.0 ;;
    "-m venv "*) for folder; do :; done; mkdir -p "$folder/bin" && cp "$0" "$folder/bin/python" ;;
    "-m pip install "*) echo "Collecting the engine"; [ -z "$FAKE_PIP" ] || { echo "$FAKE_PIP"; exit 1; } ;;
    *print*) echo /nowhere ;;
esac
"""


class Checkout:
    """A checkout with nothing but what the script reads, and that interpreter."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "tools").mkdir()
        shutil.copy(ROOT / "tools" / "setup.sh", folder / "tools")
        for name in ("pyproject.toml", "adapters/spark/pyproject.toml", "constraints.txt", "hatch_build.py"):
            self.write(name, "")
        for name in ("rstreams/net/_proton/_loops.c", "rstreams/_codec/_data_sections.c", "rstreams/runtime/_items.c"):
            self.write(name, "")
        self.write("bin/python3", PYTHON)
        self.write("bin/openssl", "#!/bin/sh\n")
        self.write("bin/compiler", "#!/bin/sh\ncat >/dev/null\n")

    def write(self, name: str, text: str) -> None:
        """Write a file that can be run."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def setup(self, *parts: str, **variables: str) -> tuple[int, list[str]]:
        """Run the script; return its exit code and the lines it said."""
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        environ = os.environ | {"PATH": path, "PYTHON": "python3", "CC": "compiler"} | variables
        done = subprocess.run(
            [self.folder / "tools" / "setup.sh", *parts],
            env=environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=50,
        )
        assert done.stdout == ""
        return done.returncode, done.stderr.splitlines()


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def steps(lines: list[str]) -> list[str]:
    """Return the lines that tell what is begun, without those that tell how it goes."""
    return [line for line in lines if line.startswith("setup: ") and not line.startswith("setup:  ")]


def test_each_step_tells_what_it_does_and_how_long_it_takes(checkout: Checkout) -> None:
    code, lines = checkout.setup("dev")
    assert code == 0
    assert steps(lines) == [MAKING, INSTALLING]
    assert lines[-1].startswith("setup:   done in ")
    assert (checkout.folder / "build" / "setup" / "dev.log").read_text().startswith("Collecting the engine\n")


def test_nothing_is_said_if_there_is_nothing_to_do(checkout: Checkout) -> None:
    checkout.setup("dev")
    assert checkout.setup("dev") == (0, [])
    checkout.write("constraints.txt", "trio==0.99")
    assert steps(checkout.setup("dev")[1]) == [INSTALLING]


def test_a_step_that_fails_shows_the_end_of_its_log_and_where_it_is(checkout: Checkout) -> None:
    code, lines = checkout.setup("dev", FAKE_PIP="error: no such file: gcc")
    assert code == 1
    assert lines[-3:-1] == ["    Collecting the engine", "    error: no such file: gcc"]
    assert lines[-1].endswith("above is the end of build/setup/dev.log")
    assert steps(checkout.setup("dev")[1]) == [INSTALLING], "it is tried again, and no second .venv made"


def test_a_venv_without_pip_is_made_anew(checkout: Checkout) -> None:
    checkout.write(".venv/bin/python", '#!/bin/sh\n[ "$1" = -c ]\n')  # as one whose making was interrupted
    assert steps(checkout.setup("dev")[1])[0] == MAKING


@pytest.mark.parametrize(("part", "packages"), [("docs", "gcc libc6-dev"), ("dev", "gcc libc6-dev openssl")])
def test_who_is_not_root_is_told_all_that_is_missing_in_one_line(checkout: Checkout, part: str, packages: str) -> None:
    checkout.write("bin/id", "#!/bin/sh\necho 1000\n")
    checkout.write("bin/openssl", "#!/bin/sh\nexit 1\n")
    code, lines = checkout.setup(part, CC="no-compiler")
    assert code == 1
    assert lines == [f"setup: python3 lacks what the build needs; run: sudo apt-get install {packages}"]
