"""The marks of a test of the kit: the rule that it verifies, its needs, and that it does not apply."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Never, TypeVar

import pytest

from rstreams.testing.verification._environment import Environment, VirtualEnvironment

F = TypeVar("F", bound=Callable[..., None])

NULL_REFUSED = (TypeError, AttributeError)
"""The errors of Python where the JVM raises a NullPointerException."""

UNTESTED = "the Reactive Streams TCK leaves it untested"


@dataclass(frozen=True)
class Rule:
    """The rule that a test verifies, and the abilities that the tested object needs for it.

    Attributes:
        number: The rule's number in the specification; "" for tests of the test's own settings.
        elements: Items it must be able to emit.
        fewest: It must be able to emit no more items than this, if not None.
        completion: Whether it must complete.
        failure: Whether it must be able to fail.
        untested: The reason why no test can show it, or "".
    """

    number: str
    elements: int = 0
    fewest: int | None = None
    completion: bool = False
    failure: bool = False
    untested: str = ""


def rule(number: str, *, optional: bool = False, **needs: Any) -> Callable[[F], F]:  # noqa: ANN401 - see `Rule`
    """Mark a test with the rule that it verifies; an optional one that fails is reported as not applicable."""

    def decorate(test: F) -> F:
        verified = _optional(number, test) if optional else test
        verified.__dict__["rule"] = Rule(number, **needs)
        return verified

    return decorate


def rule_of(test: object) -> Rule | None:
    """Return the mark that `rule` has set on a test function, or None for a test of yours."""
    found: Rule | None = getattr(test, "rule", None)
    return found


def _optional(number: str, test: F) -> F:
    @functools.wraps(test)
    def tried(self: Verification) -> None:
        try:
            test(self)
        except Exception as error:
            if not self.optional_rules_may_fail:
                raise
            self.env.violations.clear()
            first_line = (str(error) or type(error).__name__).splitlines()[0]
            not_applicable(number, f"optional, and not done here: {first_line}")

    return tried  # type: ignore[return-value]


def not_applicable(rule: str, reason: str) -> Never:
    """Report that a rule cannot apply to the tested object: a skip that the pytest plugin counts by itself."""
    pytest.skip(f"not applicable [{rule}]: {reason}")


class Verification:
    """The base of the four verifications: an environment for each test, and the rules' needs.

    Attributes:
        env: The environment of the tested object.
        case: The result of the fixture `subject`.
    """

    env: Environment
    case: object

    def create_environment(self) -> Environment:
        """Return a new environment for one test; override it for a publisher that lives in a trio run."""
        return VirtualEnvironment()

    @pytest.fixture
    def subject(self) -> object:
        """Return the tested object, for reports; override it with parameters to test several things in one class."""
        return type(self).__name__

    @pytest.fixture(autouse=True)
    def verification(self, request: pytest.FixtureRequest, subject: object) -> Iterator[None]:
        """Prepare a test, unless its rule cannot apply; afterwards, fail if a signal broke a rule."""
        self.case = subject
        verified = rule_of(request.function)
        if verified is not None:
            request.node.user_properties.append(("conformance", str(subject)))
            reason = verified.untested or self.lacks(verified)
            if reason:
                not_applicable(verified.number, reason)
        with self.create_environment() as self.env:
            yield
        assert not self.env.violations, "\n".join(self.env.violations)

    def lacks(self, verified: Rule) -> str:
        """Return the ability that the tested object lacks for a rule, or ""."""
        del verified
        return ""

    @property
    def optional_rules_may_fail(self) -> bool:
        """Whether an optional rule that is not kept counts as not applicable, as in the TCK, or as failed."""
        return True

    # for the tests

    def tried(self, call: Callable[[], object]) -> Exception | None:
        """Return the error of a call, or None."""
        try:
            self.env.act(call)
        except Exception as error:
            return error
        return None

    def refuses_none(self, call: Callable[[], object]) -> None:
        """Expect a call with None to be refused."""
        error = self.tried(call)
        assert isinstance(error, NULL_REFUSED), f"None was not refused with a TypeError: {error!r}"

    def expect(self, happened: Callable[[], object], failure: str) -> None:
        """Wait for something that must happen."""
        assert self.env.until(happened), failure
