"""`python -m examples.airports`: the demo, if all is installed that it needs."""

from __future__ import annotations

import sys

from examples.airports.requirements import missing


def main() -> int:
    """Run the demo and return its exit code."""
    try:
        if trouble := missing():
            print(f"demo: {trouble}")
            return 1
        from examples.airports.demo import run  # noqa: PLC0415 - it needs the packages that were just looked for

        return run()
    except KeyboardInterrupt:  # before the demo takes signals itself, or when it is over
        print("demo: stopped by SIGINT")
        return 130


if __name__ == "__main__":
    sys.exit(main())
