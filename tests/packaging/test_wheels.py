"""What the wheels of both distributions hold, and what they do where nothing else of this checkout is to be seen."""

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
from collections.abc import Callable
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECTS = {"rstreams": ROOT, "rstreams_spark": ROOT / "adapters" / "spark"}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


EXTENSIONS = {str(source.relative_to(ROOT).with_suffix(".abi3.so")) for source in (ROOT / "rstreams").rglob("*.c")}


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """Run a command away from the checkout and return what it printed on stdout."""
    return ran(*command, cwd=cwd, **variables).stdout


def ran(*command: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command away from the checkout, with more variables in its environment."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV", "RSTREAMS"))}
    environ |= variables
    done = subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both wheels, each built from its source distribution, so that those are seen to be complete too."""
    folder = tmp_path_factory.mktemp("wheels")
    for project in PROJECTS.values():
        run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, project, cwd=folder)
    return {name: next(folder.glob(f"{name}-*.whl")) for name in PROJECTS}


@pytest.fixture(scope="module")
def python(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """An interpreter with the two wheels and, of everything else, what this one has."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "venv", with_pip=False)
    binaries = folder / "venv" / "bin"
    pip = (sys.executable, "-m", "pip", "--python", binaries / "python")
    run(*pip, "install", "--quiet", "--no-index", "--no-deps", *wheels.values(), cwd=folder)
    # On the path and not scanned for .pth files, so the editable installs of this checkout stay out of sight.
    purelib = run(binaries / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder)
    (Path(purelib.strip()) / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return lambda program, *arguments, **variables: run(binaries / program, *arguments, cwd=folder, **variables)


def names_in(wheel: Path) -> set[str]:
    return {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}


def modules_of(source: Path, *packages: str) -> set[str]:
    """The files of the packages, named as a wheel names them."""
    found = {path for package in packages for path in (source / package).rglob("*") if path.is_file()}
    built = {".c", ".h", ".pyc", ".so"}  # what is built, and what from
    return {str(path.relative_to(source)) for path in found if path.suffix not in built}


def test_the_core_wheel_holds_the_package_its_pytest_plugin_and_nothing_else(wheels: dict[str, Path]) -> None:
    names = names_in(wheels["rstreams"])
    assert names == modules_of(ROOT, "rstreams") | {"pytest_rstreams.py", *EXTENSIONS}
    assert "rstreams/py.typed" in names


def test_the_core_wheel_is_for_this_platform_and_any_later_python(wheels: dict[str, Path]) -> None:
    python, abi, platform = wheels["rstreams"].stem.split("-")[2:]
    assert (python, abi) == ("cp311", "abi3")
    assert platform == sysconfig.get_platform().replace("-", "_").replace(".", "_")


@pytest.mark.parametrize("source", sorted((ROOT / "rstreams").rglob("*.[ch]")), ids=lambda path: path.name)
def test_a_wheel_built_with_a_later_python_counts_references_for_the_earliest_one(source: Path) -> None:
    # With the headers of Python 3.12 these take no reference, because such objects live for ever there.
    assert not re.search(r"\bPy_RETURN_(NONE|TRUE|FALSE|NOTIMPLEMENTED)\b", source.read_text())


def test_the_source_distribution_holds_what_the_extension_is_built_from(wheels: dict[str, Path]) -> None:
    (source,) = wheels["rstreams"].parent.glob("rstreams-*.tar.gz")
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"hatch_build.py", *(name.replace(".abi3.so", ".c") for name in EXTENSIONS)} <= names
    assert not [name for name in names if name.endswith(".so")]


@pytest.mark.parametrize("compiler", ["no-such-compiler", "false"])
def test_without_a_compiler_the_build_fails_with_one_line_that_says_what_is_missing(
    wheels: dict[str, Path], tmp_path: Path, compiler: str
) -> None:
    (source,) = wheels["rstreams"].parent.glob("rstreams-*.tar.gz")
    run("tar", "-xzf", source, cwd=tmp_path)  # tarfile's own way differs from 3.11.2 to 3.14
    (project,) = tmp_path.glob("rstreams-*")
    build = (sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", tmp_path / "dist", project)
    done = subprocess.run(
        build, cwd=tmp_path, env=os.environ | {"CC": compiler}, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    said = [line for line in (done.stdout + done.stderr).splitlines() if "its modules in C cannot be built" in line]
    assert len(said) == 1
    assert "a C compiler and Python's headers" in said[0]
    assert compiler in said[0]


def test_the_adapter_wheel_holds_its_two_packages_and_nothing_else(wheels: dict[str, Path]) -> None:
    names = names_in(wheels["rstreams_spark"])
    assert names == modules_of(ROOT / "adapters" / "spark" / "src", "rstreams_spark", "pyspark_rstreams")
    assert "rstreams_spark/py.typed" in names


@pytest.mark.parametrize("name", PROJECTS)
def test_a_wheel_carries_the_licence(wheels: dict[str, Path], name: str) -> None:
    with ZipFile(wheels[name]) as wheel:
        licence = next(entry for entry in wheel.namelist() if entry.endswith(".dist-info/licenses/LICENSE"))
        assert b"Apache License" in wheel.read(licence)


def test_the_core_does_not_ask_for_spark(wheels: dict[str, Path]) -> None:
    with ZipFile(wheels["rstreams"]) as wheel:
        metadata = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        required = Parser().parsestr(wheel.read(metadata).decode()).get_all("Requires-Dist")
    assert required
    assert not [requirement for requirement in required if "spark" in requirement]


def test_installed_it_runs_from_its_wheel(python: Callable[..., str]) -> None:
    location = python("python", "-c", "import rstreams; print(rstreams.__file__)")
    assert "site-packages" in location
    assert str(ROOT) not in location


def test_the_command_tells_its_version(python: Callable[..., str]) -> None:
    version = python("python", "-c", "import rstreams; print(rstreams.__version__)").strip()
    assert version in python("rstreams", "--version")


def imported_by(python: Callable[..., str], module: str) -> set[str]:
    """The top-level modules that importing `module` brings along."""
    names = python("python", "-c", f"import {module}, sys; print(*{{name.split('.')[0] for name in sys.modules}})")
    return set(names.split())


def test_importing_the_core_leaves_spark_alone(python: Callable[..., str]) -> None:
    assert not imported_by(python, "rstreams") & {"pyspark", "pyarrow", "rstreams_spark"}


def test_what_spark_imports_to_register_is_light(python: Callable[..., str]) -> None:
    # Spark imports every pyspark_* module at the first look-up of any data source.
    assert not imported_by(python, "pyspark_rstreams") & {"trio", "pyarrow", "proton"}
