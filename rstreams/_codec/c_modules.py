"""Loads the modules in C."""

from __future__ import annotations

from importlib.util import find_spec, module_from_spec
from typing import Any


def load(name: str, interface: int, package: str = "rstreams._codec") -> Any:  # noqa: ANN401 - a module without types
    """Return the module `name` of a package, in C.

    The module is new, and not in `sys.modules`. Therefore each caller binds its own.

    Errors: `ImportError` if it was not built, or is of another version of rstreams.
    """
    full = f"{package}.{name}"
    spec = find_spec(full)
    if spec is None or spec.loader is None:
        msg = f"{full} is missing, which is in C: install rstreams again, or run hatch_build.py in a checkout"
        raise ImportError(msg, name=full)
    compiled = module_from_spec(spec)
    spec.loader.exec_module(compiled)
    if getattr(compiled, "INTERFACE", None) != interface:
        msg = f"{full} is of another version of rstreams: install it again, or run hatch_build.py in a checkout"
        raise ImportError(msg, name=full)
    return compiled
