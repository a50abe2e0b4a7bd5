"""`python -m rstreams` is the command `rstreams`."""

import sys

from rstreams.cli.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
