"""The environment of the last release: its files from the repository's history, and an interpreter that has them.

It is in `build/compat/`, in a folder with the hash of the revision and the version of Python, and is made once.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
RELEASE: Final = Path(__file__).with_name("RELEASE")
BUILD: Final = ROOT / "build" / "compat"
JAVA: Final = ROOT / ".venv" / "java"


class NoEnvironment(Exception):
    """The environment cannot be made; the text says why, in one line."""


class Environment:
    """Where the packages of a revision are installed.

    Attributes:
        revision: Its hash.
        python: Its interpreter.
    """

    def __init__(self, revision: str) -> None:
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        self.revision = revision
        self.folder = BUILD / f"{revision[:12]}-py{version}"
        self.tree = self.folder / "tree"
        self.python = self.folder / "venv" / "bin" / "python"

    def make(self, part: str, say: Callable[[str], None]) -> None:
        """Install a part, "core" or "spark", unless that is done; the core is needed first."""
        if part == "spark" and not JAVA.exists():
            msg = "the case spark needs Java; run: tools/setup.sh dev java"
            raise NoEnvironment(msg)
        done = self.folder / f"has-{part}"
        if done.exists():
            return
        begin = time.monotonic()
        if part == "core":
            say(f"building {self.revision[:12]} in {self.folder.relative_to(ROOT)} (up to three minutes)")
            shutil.rmtree(self.folder, ignore_errors=True)
            self.tree.mkdir(parents=True)
            self._unpack()
            self._run(sys.executable, "-m", "venv", str(self.folder / "venv"))
            self._pip("pip")
            self._pip("--build-constraint", "constraints.txt", ".")
        else:
            say(f"installing the Spark of {self.revision[:12]} (about a minute)")
            self._pip("--build-constraint", "constraints.txt", "./adapters/spark")
        done.touch()
        say(f"  done in {time.monotonic() - begin:.0f} s")

    def _unpack(self) -> None:
        archive = self.folder / "tree.tar"
        self._run("git", "archive", "--output", str(archive), self.revision, cwd=ROOT)
        self._run("tar", "-xf", str(archive), "-C", str(self.tree))
        archive.unlink()

    def _pip(self, *arguments: str) -> None:
        """Have pip install the versions of the revision, not those of this tree."""
        pip = (str(self.python), "-m", "pip", "install", "--no-input", "--quiet", "--progress-bar", "off")
        self._run(*pip, "--constraint", "constraints.txt", *arguments)

    def _run(self, *command: str, cwd: Path | None = None) -> None:
        done = subprocess.run(command, cwd=cwd or self.tree, capture_output=True, text=True, check=False)
        with (self.folder / "build.log").open("a") as log:
            log.write(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            msg = f"{' '.join(command[:4])} failed: {last}; all of it is in {self.folder.relative_to(ROOT)}/build.log"
            raise NoEnvironment(msg)


def released(file: Path = RELEASE) -> str:
    """Return the revision that the file names."""
    lines = [line.strip() for line in file.read_text().splitlines() if line.strip() and not line.startswith("#")]
    if len(lines) != 1:
        msg = f"{file.name} must have one line with a revision, beside its comments; it has {len(lines)}"
        raise NoEnvironment(msg)
    return lines[0]


def hash_of(revision: str, repository: Path = ROOT) -> str:
    """Return the hash of a revision of the repository."""
    command = ("git", "-C", str(repository), "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        msg = f"git is needed to get {revision[:12]} from the history: {error}"
        raise NoEnvironment(msg) from None
    if found.returncode != 0:
        msg = f"the history here has no commit {revision[:12]}; run: git fetch --unshallow --tags"
        raise NoEnvironment(msg)
    return found.stdout.strip()
