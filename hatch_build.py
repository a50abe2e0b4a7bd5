"""Builds the modules in C: with hatchling, or in place with `python hatch_build.py`.

Without a compiler or Python's headers the build fails with one line that says what is missing.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any, NoReturn

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MODULES = (
    "rstreams/_codec/_columns",
    "rstreams/_codec/_data_sections",
    "rstreams/_codec/_decode",
    "rstreams/_codec/_encode",
    "rstreams/_codec/_values",
    "rstreams/net/_proton/_loops",
    "rstreams/runtime/_items",
)
ABI = "cp311-abi3"
"""The C sources use the limited API of 3.11 alone: one wheel for this and every later CPython."""


class LoopsHook(BuildHookInterface):  # type: ignore[type-arg] # hatchling's own parameter means nothing here
    """Adds the extensions to a wheel, and the platform to its tag."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the extension: beside its source for an editable install, else for the wheel alone."""
        if self.target_name != "wheel":
            return
        root = Path(self.root)
        if version == "editable":
            build(root, root)
            return
        self._folder = tempfile.TemporaryDirectory()
        to = Path(self._folder.name)
        build(root, to)
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"{ABI}-{platform}"
        for module in MODULES:
            build_data["force_include"][str(to / f"{module}.abi3.so")] = f"{module}.abi3.so"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 - hatchling's
        """Remove what was built on the way."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()


def build(root: Path, to: Path) -> None:
    """Compile the modules into the folder `to`; end the program with one line if that cannot be done."""
    if sys.implementation.name != "cpython" or os.name != "posix" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        fail("they are for CPython with the GIL on POSIX systems")
    link = shlex.split(sysconfig.get_config_var("LDSHARED") or "cc -shared")
    compiler = os.environ.get("CC")
    if compiler:
        link[:1] = shlex.split(compiler)
    options = ["-std=c11", "-O2", "-fPIC", "-Wall", "-Wextra", f"-I{sysconfig.get_path('include')}"]
    for module in MODULES:
        built = to / f"{module}.abi3.so"
        built.parent.mkdir(parents=True, exist_ok=True)
        partial = built.with_suffix(".partial")  # a process that has the one before open keeps it
        source = str(root / f"{module}.c")
        command = [*link, *options, source, "-o", str(partial), *shlex.split(os.environ.get("CFLAGS", ""))]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)  # noqa: S603
        except OSError as error:
            fail(str(error))
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or [f"{command[0]} ended with {done.returncode}"]
            fail(next((line for line in lines if "error" in line), lines[-1]))
        partial.replace(built)


def fail(why: str) -> NoReturn:
    """End the program with one line."""
    needed = "a C compiler and Python's headers (Debian: apt-get install gcc libc6-dev python3-dev)"
    sys.exit(f"rstreams: its modules in C cannot be built, which need {needed}: {why}")


if __name__ == "__main__":
    here = Path(__file__).parent
    build(here, here)
