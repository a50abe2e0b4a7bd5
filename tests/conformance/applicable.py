"""What the kit cannot verify of this project's subjects, computed from what they are: no test is run for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rstreams.testing.verification import Verification
from rstreams.testing.verification._rules import UNTESTED, rule_of
from tests.conformance import test_links, test_publishers, test_subscribers
from tests.conformance.links import LOCAL
from tests.conformance.subjects import HERE, ITEMLESS, PROCESSORS, PUBLISHERS, SINGLES

LIST = HERE / "not_applicable.txt"

SUBJECTS: dict[type[Verification], Iterable[str]] = {
    test_publishers.TestPublishers: PUBLISHERS,
    test_publishers.TestSingles: SINGLES,
    test_publishers.TestItemless: ITEMLESS,
    test_publishers.TestNever: ["never"],
    test_publishers.TestFail: ["fail"],
    test_publishers.TestProcessors: PROCESSORS,
    test_links.TestLocalLink: LOCAL,
    test_links.TestTcpLink: test_links.TCP,
    test_subscribers.TestSinks: test_subscribers.SINKS,
    test_subscribers.TestPublish: [test_subscribers.PUBLISH],
    test_subscribers.TestProducers: test_subscribers.ADDRESSES,
}


class Line(NamedTuple):
    """One thing that is not applicable."""

    rule: str
    test: str
    reason: str
    verification: type[Verification]
    subject: str


def not_applicable() -> Iterator[Line]:
    """Compute all that is not applicable, from the kit's own needs."""
    for verification, subjects in SUBJECTS.items():
        tests = [name for name in dir(verification) if name.startswith("test_")]
        for subject in subjects:
            tested = verification()
            tested.case = subject
            for name in tests:
                rule = rule_of(getattr(verification, name))
                assert rule is not None, name
                reason = rule.untested or tested.lacks(rule)
                if reason:
                    yield Line(rule.number, name, reason, verification, subject)


def written() -> str:
    """Return the list as it is to be checked in; `python -m tests.conformance.applicable` writes it."""
    subjects: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)
    for line in not_applicable():
        every = line.reason.startswith(UNTESTED)
        subjects[line.rule, line.test, line.reason].add("*" if every else line.subject)
    head = (
        "# What the verification kit cannot verify, and why: rule | test | reason | subjects (* for all).\n"
        "# Written by `python -m tests.conformance.applicable`, judged by test_not_applicable.py.\n"
    )
    return head + "".join(
        f"{rule or '-'} | {test} | {reason} | {'; '.join(sorted(names))}\n"
        for (rule, test, reason), names in sorted(subjects.items())
    )


if __name__ == "__main__":
    LIST.write_text(written(), encoding="utf-8")
