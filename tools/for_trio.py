"""How an example for asyncio is written for trio: pages have the first, and the site and tests make the second."""

from __future__ import annotations

import re

RULES = [
    (r"\bimport asyncio\b", "import trio"),
    (r"\bimport rstreams\.aio(?: as rstreams)?$", "import rstreams"),
    (r"\brstreams\.aio\.rabbitmq_management\b", "rstreams.net.rabbitmq_management"),
    (r"\brstreams\.aio\b", "rstreams"),
    (r"\basyncio\.run\((\w+)\(\)\)", r"trio.run(\1)"),
    (r"\basyncio\.run\((\w+)\((.*)\)\)", r"trio.run(\1, \2)"),
    (r"\basync with asyncio\.timeout\(", "with trio.fail_after("),
    (r"\basyncio\.TaskGroup\(\)", "trio.open_nursery()"),
    (r"\.create_task\(([\w.]+)\(\)\)", r".start_soon(\1)"),
    (r"\.create_task\(([\w.]+)\((.*)\)\)", r".start_soon(\1, \2)"),
    (r"\bTimeoutError\b", "trio.TooSlowError"),
    (r"\basyncio\.to_thread\b", "trio.to_thread.run_sync"),
    (r"\basyncio\.(sleep|Event)\b", r"trio.\1"),
    (r"\basyncio\.get_running_loop\(\)\.time\(\)", "trio.current_time()"),
]
"""What stands otherwise under trio: patterns for what is written for asyncio, and what replaces it."""


def for_trio(code: str) -> str:
    """Return the code of an example for asyncio as it is written for trio."""
    for pattern, replacement in RULES:
        code = re.sub(pattern, replacement, code, flags=re.MULTILINE)
    return code
