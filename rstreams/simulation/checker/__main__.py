"""`python -m rstreams.simulation.checker FILE...` judges the history in some files."""

from __future__ import annotations

import sys
from pathlib import Path

from rstreams.simulation.checker.accounts import HistoryError
from rstreams.simulation.checker.judge import Checker
from rstreams.simulation.checker.reading import read


def main(arguments: list[str]) -> int:
    """Judge the history in some files, print what is wrong, and return the exit code."""
    if not arguments or any(each.startswith("-") for each in arguments):
        sys.stderr.write("usage: python -m rstreams.simulation.checker FILE...   (the files of one history)\n")
        return 2
    checker = Checker()
    try:
        for event in read(*map(Path, arguments)):
            checker.take(event)
    except HistoryError as error:
        sys.stderr.write(f"check: {error}\n")
        return 1
    except OSError as error:
        sys.stderr.write(f"check: {error.filename} cannot be read: {error.strerror}\n")
        return 1
    findings = checker.end()
    sys.stdout.writelines(f"{finding.kind}: {finding.text}\n" for finding in findings)
    sys.stdout.write(f"check: {checker.events} events, {len(findings)} failed\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
