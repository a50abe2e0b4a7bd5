"""For tests of pipelines: probes for either end of a stage, scripts and drawings of what comes, a clock the test moves.

The verification kit is in `rstreams.testing.verification`, because it needs pytest.
"""

from rstreams.testing.marbles import MarbleError, cold, expect_marbles, hot
from rstreams.testing.played_publisher import TestPublisher
from rstreams.testing.probes import ManualPublisher, Outcome, ProbeSubscriber
from rstreams.testing.stream_verifier import StreamVerifier
from rstreams.testing.virtual_scheduler import VirtualScheduler

__all__ = [
    "ManualPublisher",
    "MarbleError",
    "Outcome",
    "ProbeSubscriber",
    "StreamVerifier",
    "TestPublisher",
    "VirtualScheduler",
    "cold",
    "expect_marbles",
    "hot",
]
