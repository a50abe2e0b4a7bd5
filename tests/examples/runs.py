"""What the tests of the demo share: a small run, and what its processes say in it."""

from examples.airports.progress import Progress
from examples.airports.results import Result, StationDay

ROWS = 48
FIRST = StationDay("EWR", "2013-01-01")
SECOND = StationDay("JFK", "2013-01-02")
EXPECTED = {FIRST: Result(41.4, 24, 0), SECOND: Result(-3.5, 24, 1)}


def on_subscriber(progress: Progress, day: StationDay, result: Result) -> None:
    """Have the progress take a result as the subscriber prints it."""
    line = {"maximum": result.maximum, "observations": result.observations, "without_temperature": 0}
    progress.on_subscriber({**day._asdict(), **line, "without_temperature": result.without_temperature})


def on_queue(progress: Progress, **counters: int) -> None:
    """Have the progress take counters of the queue."""
    queue = dict.fromkeys(("enqueued", "accepted", "ready", "unsettled", "credit"), 0) | counters
    progress.on_node({"queues": {"observations": queue}})


def all_through() -> Progress:
    """The progress of a run in which all went well."""
    progress = Progress(EXPECTED)
    progress.on_publisher({"station": "EWR", "sent": 24, "accepted": 24})
    progress.on_publisher({"station": "JFK", "sent": 24, "accepted": 24})
    on_queue(progress, enqueued=ROWS, accepted=ROWS)
    progress.on_job({"batch": 0, "rows": 40, "seconds": 2.5})
    progress.on_job({"batch": 1, "rows": 8, "seconds": 0.5})
    for day, result in EXPECTED.items():
        on_subscriber(progress, day, result)
    return progress
