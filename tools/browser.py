"""A Chromium without a window, told what to do over a pipe in the words of its DevTools protocol."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")
"""Without a sandbox, because root has none, and the pages are our own."""


@contextmanager
def browser() -> Iterator[Page]:
    """Start a Chromium with one page, and end it."""
    told_end, tell = os.pipe()
    hear, heard_end = os.pipe()
    with tempfile.TemporaryDirectory() as profile:
        command = ["chromium", *OPTIONS, "--remote-debugging-pipe", f"--user-data-dir={profile}"]
        line = ["sh", "-c", f'exec "$@" 3<&{told_end} 4>&{heard_end}', "sh", *command]  # 3 and 4 are Chromium's choice
        with subprocess.Popen(line, pass_fds=(told_end, heard_end), stderr=subprocess.DEVNULL) as running:
            os.close(told_end)
            os.close(heard_end)
            with os.fdopen(tell, "wb", buffering=0) as there, os.fdopen(hear, "rb") as back:
                try:
                    yield Page(there, back)
                finally:
                    running.terminate()


class Page:
    """The one page of a Chromium."""

    def __init__(self, there: Any, back: Any) -> None:  # noqa: ANN401 - binary files
        self._there, self._back = there, back
        self._calls = 0
        self._session: dict[str, str] = {}
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = {"sessionId": self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}
        self.call("Page.enable")

    def call(self, method: str, **params: object) -> dict[str, Any]:
        """Call a method of the protocol, and return its result."""
        self._calls += 1
        message = {"id": self._calls, "method": method, "params": params, **self._session}
        self._there.write(json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._calls:
            pass
        if "error" in answer:
            raise RuntimeError(answer["error"])
        result: dict[str, Any] = answer["result"]
        return result

    def show(self, url: str) -> None:
        """Load a page, and wait until it is loaded."""
        self.call("Page.navigate", url=url)
        while self._read().get("method") != "Page.loadEventFired":
            pass

    def width(self, pixels: int) -> None:
        """Make the window as wide as this."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=pixels, height=900, deviceScaleFactor=1, mobile=pixels < 600
        )

    def run(self, script: str) -> Any:  # noqa: ANN401 - whatever it returns
        """Run JavaScript in the page; return its value, and wait for it if it is a promise."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            raise RuntimeError(done["exceptionDetails"])
        return done["result"].get("value")

    def _read(self) -> dict[str, Any]:
        message = bytearray()
        while (byte := self._back.read(1)) != b"\0":
            if not byte:
                told = "Chromium has ended by itself"
                raise RuntimeError(told)
            message += byte
        answer: dict[str, Any] = json.loads(message)
        return answer
