"""For tests of pipelines: probes that stand at either end of a stage and record what happens there."""

from rstreams.testing.probes import ManualPublisher, Outcome, ProbeSubscriber

__all__ = ["ManualPublisher", "Outcome", "ProbeSubscriber"]
