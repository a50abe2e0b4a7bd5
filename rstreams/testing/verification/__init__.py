"""The verification kit: the rule tests of the Reactive Streams TCK, for anybody's publisher, subscriber or processor.

    class TestMyPublisher(PublisherVerification[int]):
        def create_publisher(self, elements: int) -> Publisher[int]:
            return my_publisher(elements)

pytest finds the rest: a test for each rule, under the name the TCK for the JVM gives it. A rule that cannot apply, for
lack of items, of a signal, or because nothing can show it, is reported as not applicable with its reason, never
passed over in silence; the pytest plugin counts them all in a last line. Needs pytest.
"""

from rstreams.testing.verification._environment import Environment, TrioEnvironment, VirtualEnvironment
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
