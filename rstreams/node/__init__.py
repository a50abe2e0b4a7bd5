"""The embedded AMQP node: streams served, queues and multicasts, in memory."""

from rstreams.node._node import STATISTICS, Node

__all__ = ["STATISTICS", "Node"]
