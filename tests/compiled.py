"""The modules in C: `make setup` builds them, so a test of one is left out only where Python was asked for."""

from __future__ import annotations

import os
from typing import Any

import pytest


def compiled(module: Any) -> Any:  # noqa: ANN401 - a module, which has no types
    """Return a module in C. Without it the test fails, or is skipped if RSTREAMS_PURE=1 is set."""
    if module is None:
        if os.environ.get("RSTREAMS_PURE") == "1":
            pytest.skip("RSTREAMS_PURE=1 asks for Python")
        pytest.fail("the modules in C are not built: `.venv/bin/python hatch_build.py` builds them, or says why not")
    return module
