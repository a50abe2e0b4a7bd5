"""The names of the package `rstreams`, which are imported when they are first used."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

import rstreams


def test_each_public_name_comes_from_the_module_that_defines_it() -> None:
    assert sorted(rstreams._HOMES) == rstreams.__all__
    for name, home in rstreams._HOMES.items():
        assert getattr(rstreams, name) is getattr(import_module(f"rstreams.{home}"), name)
    assert set(rstreams.__all__) <= set(dir(rstreams))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"^module 'rstreams' has no attribute 'Strem'$"):
        rstreams.Strem  # type: ignore[attr-defined] # noqa: B018


def _printed(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_the_errors_load_neither_the_network_nor_the_node() -> None:
    unwanted = "{'trio', 'proton', 'rstreams.net', 'rstreams.node', 'rstreams.stream'}"
    assert _printed(f"import sys, rstreams.errors; print(*{unwanted} & set(sys.modules))") == ""


@pytest.mark.slow
def test_the_package_alone_has_its_public_modules() -> None:
    code = "import rstreams; print(*(getattr(rstreams, name).__name__ for name in sorted(rstreams._PACKAGES)))"
    assert _printed(code).split() == [f"rstreams.{name}" for name in sorted(rstreams._PACKAGES)]
