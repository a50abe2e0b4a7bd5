"""The embedded AMQP node: its addresses are streams, queues, multicasts, and kinds that a program adds."""

from rstreams._codec.asking import Wish
from rstreams.net.transport.accounts import Client, UserLimits
from rstreams.net.transport.passwords import PasswordHash
from rstreams.node.access import Permission
from rstreams.node.address import Address, LinkRequest, NodeServices, Supply
from rstreams.node.node import Node
from rstreams.node.statistics_address import STATISTICS

__all__ = [
    "STATISTICS",
    "Address",
    "Client",
    "LinkRequest",
    "Node",
    "NodeServices",
    "PasswordHash",
    "Permission",
    "Supply",
    "UserLimits",
    "Wish",
]
