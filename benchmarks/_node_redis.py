"""redis-py with streams that are synced: a queue is a consumer group with XACK, a log is read by XREAD."""

from benchmarks._network_redis import consume, idle, publish

__all__ = ["consume", "idle", "publish"]
