"""Operators, one a file: functions from publisher to publisher that take part in demand and holds."""
