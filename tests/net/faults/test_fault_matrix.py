"""Every fault at every phase of a connection, in every role: each message is counted, and nothing is left behind."""

from __future__ import annotations

from typing import Any

import pytest

from tests.net.fault_cases import FAULTS, PHASES, Fault, Phase, run_case
from tests.net.fault_roles import KEPT_ROLES, MAIN_ROLES, MORE_ROLES, Role


def named(value: Any) -> str | None:  # noqa: ANN401 - any parameter
    return getattr(value, "name", None) or getattr(value, "__name__", None)


def runs(role: type[Role], fault: Fault, phases: list[Phase], *, returns: bool) -> None:
    __tracebackhide__ = True
    failed: list[str] = []
    for phase in phases:
        if fault.kind == "garbled" and phase.at == "inside":
            continue  # what is garbled there may be a message, and nobody can know
        try:
            run_case(role, fault, phase, returns=returns)
        except Exception as error:  # all the phases that fail are told
            failed.append(f"{phase.name}: {type(error).__name__}: {error}")
    assert not failed, "\n".join(failed)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.kind != "garbled"], ids=named)
@pytest.mark.parametrize("role", KEPT_ROLES, ids=named)
@pytest.mark.parametrize("returns", [True, False], ids=["reconnect", "no policy"])
def test_every_fault_for_subscribers_that_the_node_waits_for(role: type[Role], fault: Fault, returns: bool) -> None:  # noqa: FBT001
    runs(role, fault, PHASES, returns=returns)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=named)
@pytest.mark.parametrize("role", MAIN_ROLES, ids=named)
@pytest.mark.parametrize("returns", [True, False], ids=["reconnect", "no policy"])
def test_every_fault_at_every_phase(role: type[Role], fault: Fault, returns: bool) -> None:  # noqa: FBT001
    runs(role, fault, PHASES, returns=returns)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.kind != "harmless"], ids=named)
@pytest.mark.parametrize("role", MORE_ROLES, ids=named)
def test_every_fault_while_there_are_packs_or_stamps(role: type[Role], fault: Fault) -> None:
    begin = [phase.name for phase in PHASES].index("attach to_peer")
    runs(role, fault, PHASES[begin:], returns=True)
