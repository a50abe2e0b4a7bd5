"""The embedded AMQP node: streams served, queues and multicasts, in memory."""

from rstreams.node._links import STATISTICS
from rstreams.node._node import Node

__all__ = ["STATISTICS", "Node"]
