"""What the source and the sink tell the readers of Spark's logs."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    """Write a line to the log: of the driver, or of the executor."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
