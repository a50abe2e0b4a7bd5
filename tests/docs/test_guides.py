"""The examples of the pages run as they stand, also as their tabs for trio, and print what the pages say they print."""

from __future__ import annotations

from typing import Any

import pytest

from tests.docs.examples import examples_of

GUIDES = [
    "codecs",
    "durable",
    "errors",
    "large-messages",
    "latest",
    "node",
    "request-reply",
    "sharing",
]
"""Guides whose examples each stand alone."""

EXAMPLES = [(guide, at) for guide in GUIDES for at in range(len(examples_of(f"docs/guides/{guide}.md")))]


@pytest.mark.slow
@pytest.mark.parametrize(("guide", "at"), EXAMPLES, ids=str)
def test_an_example_prints_what_it_says(guide: str, at: int, capsys: pytest.CaptureFixture[str]) -> None:
    code, printed = examples_of(f"docs/guides/{guide}.md")[at]
    exec(compile(code, guide, "exec"), {"__name__": __name__})  # noqa: S102 - the guide is ours
    assert capsys.readouterr().out == printed


@pytest.mark.slow
@pytest.mark.parametrize("loop", [0, 1], ids=["asyncio", "trio"])
def test_the_examples_about_logs_run_one_after_another(loop: int, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": __name__}
    for code, printed in examples_of("docs/guides/logs.md")[loop::2]:
        exec(compile(code, "logs.md", "exec"), names)  # noqa: S102 - the guide is ours
        assert capsys.readouterr().out == printed
