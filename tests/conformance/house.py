"""What this project asks of its own publishers and subscribers beyond the specification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rstreams.abc import Publisher
from tests.conformance.subjects import failing


class House:
    """Signals that never overlap, cancels that silence at once, an error for every demand that is no positive integer.

    And the optional rules are kept.
    """

    strictly_serial = True
    stops_at_once = True
    optional_rules_may_fail = False
    wrong_demands: Sequence[Any] = (-1, -(2**31), -(2**63), 1.5, "1", None, True)
    case: object

    @property
    def can_fail(self) -> bool:
        return failing(str(self.case)) is not None

    def create_failed_publisher(self) -> Publisher[Any] | None:
        twin = failing(str(self.case))
        assert twin is not None
        return twin()
