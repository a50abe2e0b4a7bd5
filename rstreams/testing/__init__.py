"""For tests of pipelines: probes for either end of a stage, and a clock that the test moves."""

from rstreams.testing.probes import ManualPublisher, Outcome, ProbeSubscriber
from rstreams.testing.virtual_scheduler import VirtualScheduler

__all__ = ["ManualPublisher", "Outcome", "ProbeSubscriber", "VirtualScheduler"]
