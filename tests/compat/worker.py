"""One side of a case, as a process: it runs with the interpreter of one version, and does what the driver says.

A line of its input is a call, as JSON: `{"id": 7, "do": "publish", ...}`. The answer is a line of its output:
`{"id": 7, "result": ...}` or `{"id": 7, "error": {...}}`. Calls run side by side. The first line of output tells where
its rstreams is. When the input ends, everything is closed in order.

It uses only names that are public in both versions.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import trio

import rstreams
from tests.compat.worker_client import ClientCalls
from tests.compat.worker_node import NodeCalls


class Worker(ClientCalls, NodeCalls):
    """Answers the calls of the driver: each public method of its bases is one."""

    async def run(self) -> None:
        """Answer until the input ends."""
        _say(rstreams=rstreams.__file__)
        async with trio.open_nursery() as self.nursery:
            while line := await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
                self.nursery.start_soon(self._answer, json.loads(line))
            self.nursery.cancel_scope.cancel()

    async def _answer(self, call: dict[str, Any]) -> None:
        number, name = call.pop("id"), call.pop("do")
        try:
            result = await getattr(self, name)(**call)
        except Exception as error:
            _say(id=number, error=_told(error))
        else:
            _say(id=number, result=result)


def _told(error: Exception) -> dict[str, Any]:
    told: dict[str, Any] = {"type": type(error).__name__, "text": str(error)}
    told |= {name: getattr(error, name, None) for name in ("condition", "description", "outcome", "status")}
    told["info"] = {str(key): str(value) for key, value in (getattr(error, "info", None) or {}).items()}
    return told


def _say(**answer: object) -> None:
    sys.stdout.write(json.dumps(answer, default=str) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Be a worker."""
    logging.basicConfig(level=logging.ERROR)
    trio.run(Worker().run)
