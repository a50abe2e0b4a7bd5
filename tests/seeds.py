"""The seeds of a test that plays random scripts: the first ones are quick tests, the others are slow ones."""

from __future__ import annotations

from typing import Any

import pytest


def seeds(count: int, *, quick: int) -> list[Any]:
    """Return the numbers below `count` as parameters; those from `quick` on are marked slow."""
    return [*range(quick), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(quick, count))]
