"""The guide to durable queues: its code is run as it stands, and prints what the guide says it prints."""

from __future__ import annotations

import pytest

from tests.docs.examples import examples_of, output_of


@pytest.mark.slow
@pytest.mark.parametrize(("code", "printed"), examples_of("guides/durable.md"))
def test_the_example_prints_what_it_says(code: str, printed: str) -> None:
    assert output_of(code) == printed
