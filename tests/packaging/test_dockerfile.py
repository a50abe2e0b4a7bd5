"""The Dockerfile of the examples: its commands for pip, run here without a container and without its compiler."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "examples" / "docker" / "Dockerfile").read_text(encoding="utf-8")

# It takes packages from the index that pip is set to, and compiles the AMQP engine unless pip still has its wheel.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def instructions() -> list[list[tuple[str, str]]]:
    """Return the stages; each is its instructions, such as ("COPY", "rstreams rstreams")."""
    lines = [line for line in DOCKERFILE.splitlines() if not line.startswith("#")]
    whole = "\n".join(lines).replace("\\\n", " ")
    found = [(word, rest) for word, _, rest in (line.partition(" ") for line in whole.splitlines() if line)]
    starts = [at for at, (word, _) in enumerate(found) if word == "FROM"]
    return [found[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)]


def pip_of(stage: list[tuple[str, str]], wheels: Path) -> list[str]:
    """Return the arguments of the one call to pip in a stage, with the wheelhouse at `wheels`."""
    (command,) = (rest for word, rest in stage if word == "RUN" and re.search(r"\bpip ", rest))
    arguments = shlex.split(command[command.index("pip ") + len("pip ") :])
    return [str(wheels) if argument == "/wheels" else argument for argument in arguments]


def new_venv(folder: Path) -> Path:
    """Make a virtual environment; return its folder of programs."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return folder / "bin"


def run(command: list[str | Path], cwd: Path, path: str) -> str:
    """Run a command with nothing of this test run in its environment, and return what it printed."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV", "RSTREAMS"))}
    done = subprocess.run(command, cwd=cwd, env=environ | {"PATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_wheelhouse_is_enough_where_there_is_no_compiler(tmp_path: Path) -> None:
    build, slim = instructions()
    source, wheels = tmp_path / "src", tmp_path / "wheels"
    source.mkdir()
    for names in (shlex.split(rest) for word, rest in build if word == "COPY"):
        for name in names[:-1]:
            if (ROOT / name).is_dir():
                without = shutil.ignore_patterns("*.so", "__pycache__")
                shutil.copytree(ROOT / name, source / names[-1], ignore=without)
            else:
                shutil.copy(ROOT / name, source / names[-1])

    programs = new_venv(tmp_path / "build")
    run([programs / "python", "-m", "pip", *pip_of(build, wheels)], source, f"{programs}:{os.environ['PATH']}")
    made = {wheel.name.partition("-")[0] for wheel in wheels.iterdir()}
    assert {"rstreams", "python_qpid_proton", "trio"} <= made

    programs = new_venv(tmp_path / "slim")
    assert shutil.which("gcc", path=str(programs)) is None
    arguments = pip_of(slim, wheels)
    assert "--no-index" in arguments
    run([programs / "python", "-m", "pip", *arguments], tmp_path, str(programs))
    (entry,) = (rest for word, rest in slim if word == "ENTRYPOINT")
    assert entry == '["rstreams"]'
    run([programs / "rstreams", "--version"], tmp_path, str(programs))
