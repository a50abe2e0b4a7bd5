"""Management of a node over a connection."""

from rstreams.net.links.link_info import LinkInfo
from rstreams.net.management.client import (
    AddressInfo,
    ConnectionInfo,
    Management,
    MovedLetters,
    NamedSubscriptionInfo,
    SubscriptionInfo,
)
from rstreams.net.management.paired_requests import ManagementRefused

__all__ = [
    "AddressInfo",
    "ConnectionInfo",
    "LinkInfo",
    "Management",
    "ManagementRefused",
    "MovedLetters",
    "NamedSubscriptionInfo",
    "SubscriptionInfo",
]
