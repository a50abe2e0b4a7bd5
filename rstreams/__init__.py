"""Reactive Streams for Python whose signals are AMQP 1.0 link frames."""

__version__ = "0.1.0"
