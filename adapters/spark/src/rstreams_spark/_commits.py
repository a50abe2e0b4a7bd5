"""The commit log of a query's checkpoint: it tells when Spark has committed a batch.

Spark's own call, `commit(end)`, comes with the next batch, and for the last one never. The checkpoint knows it earlier:

    offsets/N    written before batch N begins; a line for each source with the offset where the batch ends
    commits/N    written when batch N is through

Spark tells a source neither the number of its batch nor the folder of the checkpoint. The folder is an option. The
number is that of the next file in `offsets` when `latestOffset` returns.
"""

from __future__ import annotations

import json
from pathlib import Path


class CommitLog:
    """Looks up one batch at a time.

    Context: Any thread; reads the file system.
    """

    def __init__(self, folder: str) -> None:
        """Look into the checkpoint in `folder`, which need not exist yet."""
        self._offsets = Path(folder) / "offsets"
        self._commits = Path(folder) / "commits"
        self._planned = (-1, "")

    def plan(self, end: dict[str, object]) -> None:
        """Note that Spark is about to be told of a batch that ends at `end`."""
        try:
            known = [int(file.name) for file in self._offsets.iterdir() if file.name.isdecimal()]
        except OSError:
            known = []  # Spark makes it with the first batch
        self._planned = max(known, default=-1) + 1, json.dumps(end, sort_keys=True)

    def has_batch(self) -> bool:
        """Return whether Spark has committed the batch of the last `plan`."""
        batch, end = self._planned
        try:
            if not (self._commits / str(batch)).stat().st_size:
                return False
            lines = (self._offsets / str(batch)).read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            return False
        return any(_normal(line) == end for line in lines)


def _normal(line: str) -> str | None:
    try:
        return json.dumps(json.loads(line), sort_keys=True)
    except ValueError:
        return None
