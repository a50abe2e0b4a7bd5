"""The list of what is not applicable is the whole of it, and no longer than the subjects and the TCK justify."""

from __future__ import annotations

from rstreams._core.demand import UNBOUNDED
from rstreams.testing.verification import PublisherVerification
from rstreams.testing.verification._rules import UNTESTED
from tests.conformance import tck
from tests.conformance.applicable import LIST, Line, not_applicable, written
from tests.conformance.subjects import public_name
from tests.conformance.test_links import TestLocalLink as LocalLink
from tests.conformance.test_links import TestTcpLink as TcpLink

NEEDS = tck.needs(tck.PUBLISHER)

CANNOT_FAIL = {"empty", "interval", "materialize", "never", "of", "on_error_return", "range", "timer"}
"""They call no code of others, so nothing in them can fail; and two of them make an item of an error."""

FAIL_WHEN_ASKED = {"from_callable", "from_future", "from_observable", "generate", "sequence_equal", "unfold"}
"""It fails with the first demand; a failing publisher of the TCK fails each subscription at once."""

NEVER_COMPLETE = {"never", "fail"}


def test_the_list_is_up_to_date() -> None:
    assert LIST.read_text(encoding="utf-8") == written(), "run: python -m tests.conformance.applicable"


def test_every_line_is_justified() -> None:
    assert [line for line in not_applicable() if not _justified(line)] == []


def test_nothing_is_missing_on_a_link_for_lack_of_completion_or_errors() -> None:
    lines = [line for line in not_applicable() if line.verification in (TcpLink, LocalLink)]
    assert lines
    assert all(line.reason.startswith(UNTESTED) for line in lines)


def _justified(line: Line) -> bool:
    """Judge a line by the TCK's own table and by what the subject is; the kit's reason counts for nothing here."""
    if line.test.startswith("test_untested_") and line.reason.startswith(UNTESTED):
        return True
    needs = NEEDS.get(line.test)
    if needs is None or not issubclass(line.verification, PublisherVerification):
        return False
    name = public_name(line.subject)
    if "failure" in needs or line.test.endswith("once_on_error_has_been_signalled"):
        return name in CANNOT_FAIL | FAIL_WHEN_ASKED
    if line.test.startswith("test_untested_spec106"):
        needs = ("0", "completion")
    if "completion" in needs and name in NEVER_COMPLETE:
        return True
    tested = line.verification()
    tested.case = line.subject
    elements = int(needs[0]) if needs else 0
    longest, shortest = tested.max_elements_from_publisher, tested.min_elements_from_publisher
    assert longest < 2 or longest == UNBOUNDED - 1
    return not shortest <= elements <= longest
