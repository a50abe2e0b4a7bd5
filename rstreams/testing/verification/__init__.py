"""The verification kit: the rule tests of the Reactive Streams TCK, for anybody's publisher, subscriber or processor.

    class TestMyPublisher(PublisherVerification[int]):
        def create_publisher(self, elements: int) -> Publisher[int]:
            return my_publisher(elements)

pytest finds the rest: a test for each rule, with the name that the TCK for the JVM gives it. A rule may not apply: the
items or a signal for it are missing, or no signal can show it. Then it is reported as not applicable, with the reason,
and never skipped silently. The pytest plugin counts these in a last line. The kit needs pytest.
"""

from rstreams.testing.verification._environment import (
    AsyncioEnvironment,
    Environment,
    TrioEnvironment,
    VirtualEnvironment,
)
from rstreams.testing.verification._processor import IdentityProcessorVerification
from rstreams.testing.verification._publisher import PublisherVerification
from rstreams.testing.verification._rules import Verification, not_applicable
from rstreams.testing.verification._subscriber_blackbox import SubscriberBlackboxVerification
from rstreams.testing.verification._subscriber_whitebox import (
    SubscriberPuppet,
    SubscriberWhiteboxVerification,
    WhiteboxProbe,
)

__all__ = [
    "AsyncioEnvironment",
    "Environment",
    "IdentityProcessorVerification",
    "PublisherVerification",
    "SubscriberBlackboxVerification",
    "SubscriberPuppet",
    "SubscriberWhiteboxVerification",
    "TrioEnvironment",
    "Verification",
    "VirtualEnvironment",
    "WhiteboxProbe",
    "not_applicable",
]
