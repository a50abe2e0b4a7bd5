"""How many examples Hypothesis makes; every `conftest.py` that is read alone calls `load_settings`."""

import os

from hypothesis import settings


def load_settings() -> None:
    """Load the settings of the environment variable `RSTREAMS_EXAMPLES`, `all` or `quick`.

    How long one example takes says nothing on a machine that also does other work.
    """
    settings.register_profile("all", deadline=None)
    settings.register_profile("quick", deadline=None, max_examples=40)  # for `make test-quick`
    settings.load_profile(os.environ.get("RSTREAMS_EXAMPLES", "all"))
