"""Management of a node over a connection."""

from rstreams.net.management.client import (
    AddressInfo,
    Management,
    MovedLetters,
    NamedSubscriptionInfo,
    SubscriptionInfo,
)
from rstreams.net.management.paired_requests import ManagementRefused

__all__ = [
    "AddressInfo",
    "Management",
    "ManagementRefused",
    "MovedLetters",
    "NamedSubscriptionInfo",
    "SubscriptionInfo",
]
