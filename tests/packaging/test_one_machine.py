"""The product asks the machine for times and fresh numbers in one module, so that a simulation can bring its own."""

from __future__ import annotations

import ast
from pathlib import Path

import rstreams

PRODUCT = Path(rstreams.__file__).parent
CALLS = {
    *(f"time.{name}" for name in ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "sleep")),
    *("datetime.now", "datetime.utcnow", "date.today", "uuid.uuid4", "uuid4", "os.urandom", "Random", "random.random"),
    *(f"secrets.token_{name}" for name in ("bytes", "hex", "urlsafe")),
}
ELSEWHERE = {
    "_machine.py": "it is that module",
    "cli": "a command is a program of its own, which is not simulated",
    "aio/_turns.py": "an asyncio loop is not simulated",
    "net/transport/passwords.py": "salts of passwords: they show nowhere",
    "store/writer.py": "the store's own thread waits for a lock",
    "simulation": "it brings the others",
    "testing": "tests run with the clock of the machine",
}


def test_no_other_module_reads_a_clock_or_draws_a_number() -> None:
    found = []
    for file in sorted(PRODUCT.rglob("*.py")):
        place = str(file.relative_to(PRODUCT))
        if place in ELSEWHERE or place.partition("/")[0] in ELSEWHERE:
            continue
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
                name = ast.unparse(node.func)
                if name in CALLS and not (name == "Random" and node.args):
                    found.append(f"{place}:{node.lineno} {name}")
    assert found == []
