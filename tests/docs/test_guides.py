"""The examples of the pages run as they stand, also as their tabs for trio, and print what the pages say they print."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.docs.examples import ROOT, examples_of

PAGES = [
    *("guides/codecs.md", "guides/delivery.md", "guides/durable.md", "guides/effectively-once.md", "guides/errors.md"),
    *("guides/groups.md", "guides/handlers.md", "guides/large-messages.md", "guides/latest.md", "guides/limits.md"),
    "guides/log-events.md",
    *("guides/management.md", "guides/monitoring.md", "guides/multicasts.md", "guides/publish.md", "guides/queues.md"),
    *(
        "guides/looking.md",
        "guides/metrics.md",
        "guides/rabbitmq-messages.md",
        "guides/reconnect.md",
        "guides/request-reply.md",
    ),
    *("guides/sharing.md", "guides/store.md", "guides/traces.md", "guides/users.md"),
    *("coming-from/celery.md", "coming-from/kafka.md", "coming-from/nats.md", "coming-from/rabbitmq.md"),
    "coming-from/reactivex.md",
]
"""Pages whose examples each stand alone."""

EXAMPLES = [(page, at) for page in PAGES for at in range(len(examples_of(f"docs/{page}")))]


@pytest.mark.slow
@pytest.mark.parametrize(("page", "at"), EXAMPLES, ids=str)
def test_an_example_prints_what_it_says(page: str, at: int, capsys: pytest.CaptureFixture[str]) -> None:
    code, printed = examples_of(f"docs/{page}")[at]
    exec(compile(code, page, "exec"), {"__name__": __name__})  # noqa: S102 - the page is ours
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize("page", PAGES)
def test_the_code_for_other_software_is_python(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```py\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == page.startswith("coming-from/")
    for block in blocks:
        compile(block, page, "exec")


@pytest.mark.slow
@pytest.mark.parametrize("loop", [0, 1], ids=["asyncio", "trio"])
def test_the_examples_about_logs_run_one_after_another(loop: int, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": __name__}
    for code, printed in examples_of("docs/guides/logs.md")[loop::2]:
        exec(compile(code, "logs.md", "exec"), names)  # noqa: S102 - the guide is ours
        assert capsys.readouterr().out == printed
