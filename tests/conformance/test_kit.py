"""The kit itself: it has every test of the TCK, and it finds what is wrong with a publisher."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rstreams._core.claims import NO_HOLD
from rstreams._core.demand import UNBOUNDED
from rstreams._core.subscription import ENDED, subscribe_failed
from rstreams.abc import Hold, Publisher, Subscriber, Subscription
from rstreams.operators.broadcast import broadcast
from rstreams.operators.concat import concat
from rstreams.operators.map import map as map_
from rstreams.operators.on_error_resume import on_error_resume
from rstreams.sources.empty import empty
from rstreams.sources.never import never
from rstreams.testing.verification import (
    Environment,
    IdentityProcessorVerification,
    PublisherVerification,
    SubscriberBlackboxVerification,
    SubscriberWhiteboxVerification,
    TrioEnvironment,
    Verification,
    WhiteboxProbe,
)
from rstreams.testing.verification._ends import Recorder
from rstreams.testing.verification._rules import rule_of
from rstreams.testing.verification._subscriber_whitebox import PuppetOf
from tests.conformance import tck

VERIFICATIONS = {
    PublisherVerification: [tck.PUBLISHER],
    SubscriberWhiteboxVerification: [tck.SUBSCRIBER_WHITEBOX],
    SubscriberBlackboxVerification: [tck.SUBSCRIBER_BLACKBOX],
    IdentityProcessorVerification: [tck.PUBLISHER, tck.SUBSCRIBER_WHITEBOX, tck.PROCESSOR],
}


OUR_OWN = {"test_required_hold_must_return_a_hold_inside_on_next"}
"""The JVM's subscriptions have no holds."""

OUR_OWN_OF_PROCESSORS = {"test_required_an_error_must_come_behind_the_items_that_came_before_it"}
"""The specification lets an error overtake items."""


@pytest.mark.parametrize("verification", VERIFICATIONS, ids=lambda each: each.__name__)
def test_it_has_every_test_of_the_tck_and_no_other(verification: type[Verification]) -> None:
    expected = {tck.python_name(name) for table in VERIFICATIONS[verification] for name in tck.names(table)}
    if issubclass(verification, PublisherVerification):
        expected |= OUR_OWN
    if issubclass(verification, IdentityProcessorVerification):
        expected |= OUR_OWN_OF_PROCESSORS
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


# what is wrong is found: for each rule a publisher, subscriber or processor that breaks it


class Naive:
    """A publisher of whole numbers that does what one would write first, but for the flaws a subclass has."""

    def __init__(self, elements: int) -> None:
        self.left = elements
        self.number = 0
        self.demand = 0
        self.ended = False
        self.emitting = False
        self.subscriber: Any = None

    def subscribe(self, subscriber: Subscriber[int]) -> None:
        if subscriber is None:
            raise TypeError
        self.subscriber = subscriber
        subscriber.on_subscribe(self)
        self.emit()

    def request(self, n: int) -> None:
        if self.ended:
            return
        if n < 1:
            self.fail(ValueError("3.9"))
            return
        self.demand += n
        self.emit()

    def emit(self) -> None:
        if self.emitting:
            return
        self.emitting = True
        while self.demand and self.left and not self.ended:
            self.demand -= 1
            self.left -= 1
            self.number += 1
            self.subscriber.on_next(self.number)
        self.emitting = False
        if not self.left and not self.ended:
            self.complete()

    def complete(self) -> None:
        self.ended = True
        self.subscriber.on_complete()

    def fail(self, error: Exception) -> None:
        self.ended = True
        self.subscriber.on_error(error)

    def cancel(self) -> None:
        self.ended = True
        self.subscriber = None

    def hold(self) -> Hold:
        return NO_HOLD


class SendsOneTooMany(Naive):
    def request(self, n: int) -> None:
        super().request(n + 1)


class SendsUnasked(Naive):
    def subscribe(self, subscriber: Subscriber[int]) -> None:
        super().subscribe(subscriber)
        subscriber.on_next(0)


class SendsTooFew(Naive):
    def request(self, n: int) -> None:
        super().request(1 if n > 0 else n)


class NeverCompletes(Naive):
    def complete(self) -> None: ...


class CompletesTwice(Naive):
    def complete(self) -> None:
        self.subscriber.on_complete()
        super().complete()


class AnswersARequestAfterTheEnd(Naive):
    def request(self, n: int) -> None:
        if self.ended:
            self.subscriber.on_complete()
        super().request(n)


class TakesNobody(Naive):
    def subscribe(self, subscriber: Subscriber[int]) -> None:
        if subscriber is not None:
            super().subscribe(subscriber)


class ForgetsOnSubscribe(Naive):
    def subscribe(self, subscriber: Subscriber[int]) -> None:
        self.subscriber = subscriber


class Recurses(Naive):
    def emit(self) -> None:
        self.emitting = False
        if self.demand and self.left and not self.ended:
            self.demand -= 1
            self.left -= 1
            self.subscriber.on_next(1)
            self.emit()


class IgnoresCancel(Naive):
    def cancel(self) -> None: ...


class KeepsItsSubscriber(Naive):
    def cancel(self) -> None:
        self.ended = True


class CancelsLoudly(Naive):
    def cancel(self) -> None:
        if not self.ended:
            self.complete()


class IgnoresAWrongDemand(Naive):
    def request(self, n: int) -> None:
        if n > 0:
            super().request(n)


class FailsWithTheWrongError(Naive):
    def fail(self, error: Exception) -> None:
        super().fail(LookupError(error))


class Overflows(Naive):
    def request(self, n: int) -> None:
        super().request(n)
        if self.demand > UNBOUNDED and not self.ended:
            self.fail(OverflowError())


class FailsForAThirdRequest(Naive):
    requests = 0

    def request(self, n: int) -> None:
        self.requests += 1
        if self.requests > 3 and not self.ended:
            self.fail(LookupError())
        super().request(n)


class HasNoHold(Naive):
    hold = None  # type: ignore[assignment]


class HoldsNothing(Naive):
    def hold(self) -> Any:  # noqa: ANN401 - what it must not return
        return None


FOUND: dict[type[Naive], list[str]] = {
    SendsOneTooMany: ["required_spec101"],
    SendsUnasked: ["required_spec101"],
    SendsTooFew: ["required_spec102", "required_spec317"],
    NeverCompletes: ["required_spec105", "required_create_publisher1"],
    CompletesTwice: ["required_spec105", "required_spec102"],
    AnswersARequestAfterTheEnd: ["required_spec107", "untested_spec106"],
    TakesNobody: ["required_spec109_subscribe_throw"],
    ForgetsOnSubscribe: ["required_spec109_must_issue"],
    Recurses: ["required_spec303"],
    IgnoresCancel: ["required_spec306", "required_spec312", "untested_spec108"],
    KeepsItsSubscriber: ["required_spec313"],
    CancelsLoudly: ["required_spec306", "required_spec307", "untested_spec108"],
    IgnoresAWrongDemand: ["required_spec309_request_zero", "required_spec309_request_negative"],
    FailsWithTheWrongError: ["required_spec309_request_zero", "required_spec309_request_negative"],
    Overflows: ["required_spec317_must_not_signal"],
    FailsForAThirdRequest: ["required_spec302"],
    HasNoHold: ["required_hold"],
    HoldsNothing: ["required_hold"],
}


@pytest.mark.parametrize(
    ("publisher", "rule"), [(publisher, rule) for publisher, rules in FOUND.items() for rule in rules]
)
def test_a_publisher_that_breaks_a_rule_is_found(publisher: type[Naive], rule: str) -> None:
    class Verification(PublisherVerification[int]):
        stops_at_once = True

        def create_publisher(self, elements: int) -> Publisher[int]:
            return publisher(elements)

    assert not _holds(Verification, rule)


def test_a_publisher_that_breaks_none_is_not() -> None:
    class Verification(PublisherVerification[int]):
        def create_publisher(self, elements: int) -> Publisher[int]:
            return Naive(elements)

    for rules in FOUND.values():
        assert all(_holds(Verification, rule) for rule in rules)


class FoundSubscriber(SubscriberBlackboxVerification[int]):
    flaw = ""

    def create_subscriber(self) -> Subscriber[int]:
        return Flawed(self.flaw)


class Flawed:
    """A subscriber that is right but for one thing."""

    def __init__(self, flaw: str) -> None:
        self.flaw = flaw
        self.subscription: Subscription | None = None

    def on_subscribe(self, subscription: Subscription) -> None:
        if subscription is None and self.flaw != "takes None":
            raise TypeError
        if self.subscription is not None and self.flaw != "takes a second":
            subscription.cancel()
            return
        self.subscription = subscription
        if self.flaw == "asks for nothing":
            subscription.request(0)
        elif self.flaw not in ("never asks", "takes None"):
            subscription.request(1)

    def on_next(self, item: int) -> None:
        if self.flaw == "raises":
            raise LookupError(item)

    def on_error(self, error: BaseException) -> None:
        if error is None and self.flaw != "takes None":
            raise TypeError

    def on_complete(self) -> None:
        if self.flaw == "cancels at the end" and self.subscription is not None:
            self.subscription.cancel()


@pytest.mark.parametrize(
    ("flaw", "rule"),
    [
        ("takes None", "required_spec213_blackbox_on_subscribe"),
        ("takes None", "required_spec213_blackbox_on_error"),
        ("takes a second", "required_spec205"),
        ("never asks", "required_spec201"),
        ("asks for nothing", "required_spec201"),
        ("raises", "untested_spec213"),
        (
            "cancels at the end",
            "required_spec203_blackbox_must_not_call_methods_on_subscription_or_publisher_in_on_com",
        ),
    ],
)
def test_a_subscriber_that_breaks_a_rule_is_found(flaw: str, rule: str) -> None:
    class Verification(FoundSubscriber):
        pass

    assert _holds(Verification, rule)
    Verification.flaw = flaw
    assert not _holds(Verification, rule)


@pytest.mark.parametrize(
    ("processor", "rule"),
    [
        (lambda source: concat(never(), source), "must_immediately_pass_on"),
        (lambda source: map_(source, str), "required_exercise_whitebox_happy_path"),
        (lambda source: concat(source, never()), "required_spec209"),
        (lambda source: on_error_resume(source, lambda _: empty()), "must_immediately_pass_on"),
        (lambda source: on_error_resume(source, lambda _: empty()), "required_spec104"),
    ],
    ids=["holds errors back", "changes items", "never completes", "completes on errors", "resumes"],
)
def test_a_processor_that_is_no_identity_is_found(
    processor: Callable[[Publisher[Any]], Publisher[Any]], rule: str
) -> None:
    class Verification(IdentityProcessorVerification[Any]):
        def create_identity_processor(self, source: Publisher[Any]) -> Publisher[Any]:
            return processor(source)

    assert not _holds(Verification, rule)


def _holds(verification: type[Verification], name: str) -> bool:
    """Tell whether every test whose name begins so passes."""
    tests = [test for test in dir(verification) if test.startswith(f"test_{name}")]
    assert tests
    for test in tests:
        tested = verification()
        tested.case = ""
        with tested.create_environment() as tested.env:
            try:
                getattr(tested, test)()
            except Exception:
                return False
            if tested.env.violations:
                return False
    return True


def test_what_never_comes_is_waited_for_no_longer_than_said() -> None:
    @asynccontextmanager
    async def nothing() -> AsyncIterator[str]:
        yield "a resource"

    with TrioEnvironment(nothing, timeout_s=0.01) as env:
        assert env.resource == "a resource"
        assert not env.until(lambda: False)
        assert env.until(lambda: True)
        assert env.act(lambda: 7) == env.call(lambda: 7) == 7
        with pytest.raises(LookupError):
            env.act(list[int]().pop)


def test_what_happens_at_once_needs_no_settling() -> None:
    with Environment() as env:
        assert env.act(lambda: 7) == 7
        assert env.until(lambda: True)
        assert not env.until(lambda: False)
        env.violate("1.1", "more than was asked for")
        assert env.violations == ["1.1: more than was asked for"]


def test_an_optional_rule_that_is_not_kept_is_not_applicable() -> None:
    class ForOne(Naive):
        def subscribe(self, subscriber: Subscriber[int]) -> None:
            if self.subscriber is None:
                super().subscribe(subscriber)
            else:
                subscribe_failed(subscriber, LookupError("taken"))

    class Verification(PublisherVerification[int]):
        optional = True

        @property
        def optional_rules_may_fail(self) -> bool:
            return self.optional

        def create_publisher(self, elements: int) -> Publisher[int]:
            return ForOne(elements)

    tested = Verification()
    with tested.create_environment() as tested.env:
        with pytest.raises(
            pytest.skip.Exception, match=r"not applicable \[1\.11\]: optional, and not done here: the sec"
        ):
            tested.test_optional_spec111_may_support_multi_subscribe()
        Verification.optional = False
        with pytest.raises(AssertionError, match="the second subscriber was refused"):
            tested.test_optional_spec111_may_support_multi_subscribe()


@pytest.mark.parametrize("window", [1, 4])
@pytest.mark.parametrize("rule", ["required_spec104", "required_must_request", "must_immediately", "required_spec2"])
def test_a_processor_that_waits_for_all_of_its_subscribers(rule: str, window: int) -> None:
    class Verification(IdentityProcessorVerification[Any]):
        does_coordinated_emission = True

        def create_identity_processor(self, source: Publisher[Any]) -> Publisher[Any]:
            return broadcast(source, window=window)

    assert _holds(Verification, rule)


def test_signals_that_break_a_rule_by_themselves_are_noted() -> None:
    env = Environment()
    recorder = Recorder[int](env, strictly_serial=True, on_item=lambda me: me.on_complete())
    recorder.on_next(1)
    recorder.on_complete()
    assert [violation.split(":")[0] for violation in env.violations] == ["1.9", "1.1", "1.9", "1.3", "1.9", "1.7"]
    with pytest.raises(TypeError):
        recorder.on_subscribe(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        recorder.on_error(None)  # type: ignore[arg-type]
    probe = WhiteboxProbe[int](env := Environment())
    probe.register_on_complete()
    probe.register_on_complete()
    probe.register_on_error(LookupError())
    puppet = PuppetOf(ENDED)
    probe.register_on_subscribe(puppet)
    probe.register_on_subscribe(puppet)
    assert [violation.split(":")[0] for violation in env.violations] == ["1.7", "1.7", "2.5"]
