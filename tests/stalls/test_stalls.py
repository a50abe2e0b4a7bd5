"""The harness of the staged stalls, in short; `make stalls` stages all of them."""

from __future__ import annotations

import pytest

from tests.stalls.answers import Answer, Truth
from tests.stalls.stagings import STALLS

TRUTH = Truth("slow_handler", "worker")
RIGHT = Answer("slow_handler", "worker/orders", "the handler of worker is slow")


def test_there_are_twelve() -> None:
    assert len({each.title for each in STALLS}) == 12


@pytest.mark.parametrize(
    "answer",
    [
        Answer(text="the handler of worker is slow"),
        Answer("silent", RIGHT.name, RIGHT.sentence),
        Answer(RIGHT.kind, "another", RIGHT.sentence),
        Answer(RIGHT.kind, RIGHT.name, "a handler is slow"),
    ],
)
def test_an_answer_that_names_another_culprit_or_none_is_wrong(answer: Answer) -> None:
    assert RIGHT.is_right(TRUTH)
    assert not answer.is_right(TRUTH)
