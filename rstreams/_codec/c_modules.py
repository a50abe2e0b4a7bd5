"""Loads the modules in C, if they were built and `RSTREAMS_PURE=1` does not choose Python."""

from __future__ import annotations

import os
from importlib.util import find_spec, module_from_spec
from typing import Any


def load(name: str, interface: int, package: str = "rstreams._codec") -> Any:  # noqa: ANN401 - a module without types
    """Return the module `name` of a package, in C; None if there is none of this version, or Python is chosen.

    The module is new, and not in `sys.modules`. Therefore each caller binds its own.
    """
    if os.environ.get("RSTREAMS_PURE") == "1":
        return None
    try:
        spec = find_spec(f"{package}.{name}")
        if spec is None or spec.loader is None:
            return None
        compiled = module_from_spec(spec)
        spec.loader.exec_module(compiled)
    except ImportError:
        return None
    return compiled if getattr(compiled, "INTERFACE", None) == interface else None
