"""For tests of pipelines: probes, scripts, drawings, a clock that the test moves, a node, and a network that fails.

The verification kit is in `rstreams.testing.verification`, because it needs pytest.
"""

from rstreams._checks.other_names import answer_names as _answer_names
from rstreams.testing.faulty_network import FaultTrigger, FaultyConnection, FaultyNetwork
from rstreams.testing.marbles import MarbleError, cold, expect_marbles, hot
from rstreams.testing.played_publisher import TestPublisher
from rstreams.testing.probes import ManualPublisher, Outcome, ProbeSubscriber
from rstreams.testing.running_node import RunningNode, run_node
from rstreams.testing.seen_frames import SeenFrame
from rstreams.testing.stream_verifier import StreamVerifier
from rstreams.testing.virtual_loop import VirtualTimeLoop
from rstreams.testing.virtual_scheduler import VirtualScheduler

__all__ = [
    "FaultTrigger",
    "FaultyConnection",
    "FaultyNetwork",
    "ManualPublisher",
    "MarbleError",
    "Outcome",
    "ProbeSubscriber",
    "RunningNode",
    "SeenFrame",
    "StreamVerifier",
    "TestPublisher",
    "VirtualScheduler",
    "VirtualTimeLoop",
    "cold",
    "expect_marbles",
    "hot",
    "run_node",
]

_answer_names(__name__)
