"""The embedded AMQP node: its addresses are streams, queues, multicasts, and kinds that a program adds."""

from rstreams.node.address import Address, LinkRequest, NodeServices, Supply
from rstreams.node.node import Node
from rstreams.node.statistics_address import STATISTICS

__all__ = ["STATISTICS", "Address", "LinkRequest", "Node", "NodeServices", "Supply"]
