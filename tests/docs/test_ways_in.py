"""The pages that show how a kind of address, a dialect and an operator are written: their code runs as it stands."""

from __future__ import annotations

import pytest

from tests.docs.examples import examples_of, output_of

PAGES = {"extend/address-kind.md": 2, "extend/dialect.md": 1}


def test_each_page_has_its_examples() -> None:
    assert {page: len(examples_of(page)) for page in PAGES} == PAGES


@pytest.mark.parametrize(
    ("page", "number"), [(page, number) for page, count in PAGES.items() for number in range(count)]
)
def test_an_example_prints_what_the_page_says(page: str, number: int) -> None:
    code, printed = examples_of(page)[number]
    assert output_of(code) == printed
