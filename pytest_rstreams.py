"""The pytest plugin of rstreams: fixtures for tests of pipelines, and the last line of a conformance run.

It stands beside the package and not in it: pytest loads its plugins at the very start of every run, and whoever has
rstreams installed should not wait there for all of it, nor lose its coverage. So rstreams is imported when a fixture
asks for it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from rstreams.simulation import World
    from rstreams.testing import FaultyNetwork, ProbeSubscriber, RunningNode, VirtualScheduler

pytest.register_assert_rewrite("rstreams.testing.verification")

_NOT_APPLICABLE = re.compile(r"not applicable \[(?P<rule>[\d.]*)\]: (?P<reason>.*)", re.DOTALL)


@pytest.fixture
def virtual_scheduler() -> Iterator[VirtualScheduler]:
    """Run the test under a clock that it moves itself: `virtual_scheduler.advance(60.0)`."""
    from rstreams.testing import VirtualScheduler  # noqa: PLC0415 - see the module's text

    with VirtualScheduler() as scheduler:
        yield scheduler


@pytest.fixture
def probe() -> ProbeSubscriber[Any]:
    """Return a subscriber that records every signal, and requests what the test has it request."""
    from rstreams.testing import ProbeSubscriber  # noqa: PLC0415 - see the module's text

    return ProbeSubscriber()


@pytest.fixture
async def faulty_network() -> AsyncIterator[Callable[..., Awaitable[FaultyNetwork]]]:
    """Return an async function that begins a `FaultyNetwork`, which ends with the test.

    network = await faulty_network(listener.url)

    It is for tests under pytest-trio, the plugin of anyio, and pytest-asyncio in its mode `auto`.
    """
    from rstreams.testing import FaultyNetwork  # noqa: PLC0415 - see the module's text
    from rstreams.testing._either_loop import blocks  # noqa: PLC0415 - likewise

    async with blocks() as enter:

        async def begin(peer: int | str, *, seed: int = 0) -> FaultyNetwork:
            network: FaultyNetwork = await enter(FaultyNetwork(peer, seed=seed))
            return network

        yield begin


@pytest.fixture
async def running_node() -> AsyncIterator[Callable[..., Awaitable[RunningNode]]]:
    """Return an async function that runs a node until the test ends; for tests under pytest-trio.

    running = await running_node(users={"alice": "sesame"}, faulty=True)
    """
    import trio  # noqa: PLC0415 - see the module's text

    from rstreams.runtime.scope import open_nursery  # noqa: PLC0415 - likewise
    from rstreams.testing import run_node  # noqa: PLC0415 - likewise

    async def run(options: dict[str, Any], task_status: trio.TaskStatus[RunningNode]) -> None:
        async with run_node(**options) as running:
            task_status.started(running)
            await trio.sleep_forever()

    async with open_nursery() as nursery:

        async def begin(**options: Any) -> RunningNode:  # noqa: ANN401 - those of `run_node`
            running: RunningNode = await nursery.start(run, options)
            return running

        yield begin
        nursery.cancel_scope.cancel()


@pytest.fixture
def world(request: pytest.FixtureRequest) -> World | None:
    """Be the world that a test with `@pytest.mark.simulation(seeds=100)` sets up, once for each seed.

    When the test has returned, the world runs, and its history is judged. The first seed that fails is told, with the
    fewest faults with which it does. `--simulation-seed N` then runs that seed alone.
    """
    if request.node.get_closest_marker("simulation") is None:
        pytest.fail("the fixture `world` is for tests with `@pytest.mark.simulation(seeds=100)`", pytrace=False)
    return None  # `pytest_pyfunc_call` hands over the worlds


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test of a simulation with each of its seeds."""
    marker = pyfuncitem.get_closest_marker("simulation")
    if marker is None:
        return None
    from rstreams.simulation.running import run_seeds  # noqa: PLC0415 - see the module's text

    check_simulation(marker, pyfuncitem.function)
    arguments = inspect.signature(pyfuncitem.function).parameters
    others = {name: value for name, value in pyfuncitem.funcargs.items() if name in arguments}
    seed, seeds = (pyfuncitem.config.getoption(option) for option in ("--simulation-seed", "--simulation-seeds"))
    wanted = range(seeds or marker.kwargs.get("seeds", 100)) if seed is None else (seed,)
    failure = run_seeds(pyfuncitem.name, lambda world: pyfuncitem.obj(**others | {"world": world}), wanted)
    if failure is not None:
        text, error = failure
        if error is not None:
            error.add_note(text)
            raise error
        pytest.fail(text, pytrace=False)
    return True


def check_simulation(marker: pytest.Mark, test: Callable[..., object]) -> None:
    """Fail a test that is no simulation."""
    if marker.args or marker.kwargs.keys() - {"seeds"}:
        pytest.fail("`@pytest.mark.simulation` takes seeds alone, as in `simulation(seeds=100)`", pytrace=False)
    if "world" not in inspect.signature(test).parameters:
        pytest.fail("a test with `@pytest.mark.simulation` takes the fixture `world`, and sets it up", pytrace=False)
    if inspect.iscoroutinefunction(test):
        pytest.fail("a test with `@pytest.mark.simulation` sets up a world, and is not async", pytrace=False)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options for simulations, and for the list of what may be not applicable."""
    group = parser.getgroup("rstreams")
    group.addoption("--simulation-seeds", type=int, metavar="N", help="run each simulation with N seeds")
    group.addoption("--simulation-seed", type=int, metavar="N", help="run each simulation with this seed alone")
    group.addoption(
        "--conformance-list",
        type=Path,
        metavar="FILE",
        help="lines `rule | test | reason | subject; subject` (or *): a verification that is not applicable fails the "
        "run if it is not among them",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begin to count; a worker of pytest-xdist leaves it to the process that it reports to."""
    config.addinivalue_line("markers", "simulation(seeds=100): sets up a `world`, which then runs, once for each seed")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Conformance(config), "rstreams-conformance")


class _Conformance:
    """Counts what the tests of `rstreams.testing.verification` show."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._outcomes: dict[str, str] = {}
        self._unlisted: list[str] = []
        path: Path | None = config.getoption("--conformance-list")
        self._listed = None if path is None else _list_of(path)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        subject = dict(report.user_properties).get("conformance")
        if subject is None:
            return
        if report.failed:
            self._outcomes[report.nodeid] = "failed"
        elif report.skipped:
            self._note_skip(report, str(subject))
        elif report.when == "call":
            self._outcomes[report.nodeid] = "passed"

    def _note_skip(self, report: pytest.TestReport, subject: str) -> None:
        text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        found = _NOT_APPLICABLE.search(text)
        if found is None:
            return  # a skip of the user's own
        self._outcomes[report.nodeid] = "not applicable"
        test = report.nodeid.split("::")[-1].split("[")[0]
        if self._listed is not None:
            rule = found["rule"] or "-"
            subjects = self._listed.get((rule, test, found["reason"]), set())
            if not subjects & {"*", subject}:
                self._unlisted.append(f"{rule} | {test} | {found['reason']} | {subject}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._unlisted:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_unconfigure(self) -> None:
        """Print the last line, behind everything else."""
        if not self._outcomes:
            return
        writer = self._config.get_terminal_writer()
        for line in self._unlisted:
            writer.line(f"not applicable, and not in the list: {line}", red=True)
        outcomes = list(self._outcomes.values())
        counts = [f"{outcomes.count(outcome)} {outcome}" for outcome in ("passed", "failed", "not applicable")]
        writer.line(f"conformance: {', '.join(counts)}")


def _list_of(path: Path) -> dict[tuple[str, str, str], set[str]]:
    try:
        return read_list(path)
    except (OSError, ValueError) as error:
        msg = f"--conformance-list {path}: it cannot be read ({error})"
        raise pytest.UsageError(msg) from error


def read_list(path: Path) -> dict[tuple[str, str, str], set[str]]:
    """Return the subjects for each rule, test and reason of a checked-in list; lines with # are comments."""
    listed: dict[tuple[str, str, str], set[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            rule, test, reason, subjects = (part.strip() for part in line.split("|"))
            listed.setdefault((rule, test, reason), set()).update(name.strip() for name in subjects.split(";"))
    return listed
