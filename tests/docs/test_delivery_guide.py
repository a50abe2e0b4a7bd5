"""The guides to delivery and to queues: their code runs as it stands, and shows what the text says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.docs.examples import for_trio

GUIDES = Path(__file__).parents[2] / "docs" / "guides"

PRINTED = {
    "delivery.md": [
        ["wash", "dry", "PublishResult(accepted=2)"],
        ["[0, 1, 2, 3, 4]"],
        ["1", "2", "2 1 1"],
        ["3", "4", "two - x-opt-rstreams-failed-at x-opt-rstreams-failure"],
        ["resized one", "resized two"],
        ["2 accepted, 1 refused, 0 unknown", "1 modified"],
        ["2"],
        ["<rstreams receipt: accepted>", "modified - the receiver modified an item", "<rstreams receipt: accepted>"],
        ["True"],
        ["True"],
        ["0", "1", "ended: True"],
        ["3 3", "a", "b", "c"],
        [],  # a service, which does not end by itself
        ["the stream has ended", "True True"],
    ],
    "queues.md": [
        [
            "poison - exhausted: 3 attempts to deliver it have failed; the last error: ValueError: poison",
            "stale - expired",
            "1 1 1 2",
        ],
        ["4"],
        ["ValueError: poison 3", "True True"],
        ["['tea', 'milk']", "2 ['tea', 'milk']"],
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("written", [str, for_trio], ids=["asyncio", "trio"])
@pytest.mark.parametrize("guide", PRINTED)
def test_each_block_of_code_does_what_the_text_says(
    guide: str, written: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, Any] = {"__name__": "guide"}
    blocks = re.findall(r"```python(?: asyncio)?\n(.*?)```", (GUIDES / guide).read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == len(PRINTED[guide])
    for block, printed in zip(blocks, PRINTED[guide], strict=True):
        exec(compile(written(block), guide, "exec"), names)  # noqa: S102 - the guide is ours
        assert sorted(capsys.readouterr().out.splitlines()) == sorted(printed)
