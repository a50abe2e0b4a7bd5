"""The kit itself: it has every test of the TCK, and it finds what is wrong with a publisher."""

from __future__ import annotations

import pytest

from rstreams.testing.verification import (
    IdentityProcessorVerification,
    PublisherVerification,
    SubscriberBlackboxVerification,
    SubscriberWhiteboxVerification,
    Verification,
)
from rstreams.testing.verification._rules import rule_of
from tests.conformance import tck

VERIFICATIONS = {
    PublisherVerification: [tck.PUBLISHER],
    SubscriberWhiteboxVerification: [tck.SUBSCRIBER_WHITEBOX],
    SubscriberBlackboxVerification: [tck.SUBSCRIBER_BLACKBOX],
    IdentityProcessorVerification: [tck.PUBLISHER, tck.SUBSCRIBER_WHITEBOX, tck.PROCESSOR],
}


@pytest.mark.parametrize("verification", VERIFICATIONS, ids=lambda each: each.__name__)
def test_it_has_every_test_of_the_tck_and_no_other(verification: type[Verification]) -> None:
    expected = {tck.python_name(name) for table in VERIFICATIONS[verification] for name in tck.names(table)}
    assert {name for name in dir(verification) if name.startswith("test_")} == expected


@pytest.mark.parametrize("verification", VERIFICATIONS, ids=lambda each: each.__name__)
def test_each_test_says_its_rule(verification: type[Verification]) -> None:
    for name in dir(verification):
        if name.startswith("test_"):
            rule = rule_of(getattr(verification, name))
            assert rule is not None, name
            if "_spec" in name:
                digits = name.split("_spec")[1].split("_")[0]
                assert rule.number == f"{digits[0]}.{int(digits[1:])}", name


def test_the_tck_has_so_many() -> None:
    every = [name for tables in VERIFICATIONS.values() for table in tables[-1:] for name in tck.names(table)]
    kinds = [name.split("_")[0] for name in every]
    assert kinds.count("required") == 49
    assert kinds.count("optional") == 8
    assert kinds.count("stochastic") == 1
