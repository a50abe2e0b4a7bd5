"""Measurements against others, each run as `python -m benchmarks.NAME`."""
