"""Settings that hold for all tests."""

import os
import sys

from hypothesis import settings

# How long one example takes says nothing on a machine that also does other work.
settings.register_profile("rstreams", deadline=None)
settings.load_profile("rstreams")

# Spark's workers would otherwise take whatever python3 stands first on the PATH.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
