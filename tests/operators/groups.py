"""The groups of group_by, each read by a probe."""

from rstreams._core.demand import UNBOUNDED
from rstreams.operators.group_by import GroupedPublisher, group_by
from rstreams.testing import ManualPublisher, ProbeSubscriber


class Groups:
    """The groups of a played source, each with a probe of its own."""

    def __init__(self, request: int = UNBOUNDED, inner: int = UNBOUNDED, *, hold: bool = False, **options: int) -> None:
        self.source = ManualPublisher[int]()
        self.of: dict[int, ProbeSubscriber[int]] = {}
        self.publishers: dict[int, GroupedPublisher[int, int]] = {}

        def take_group(group: GroupedPublisher[int, int]) -> None:
            self.publishers[group.key] = group
            if inner >= 0:
                self.of[group.key] = ProbeSubscriber[int](inner, hold=hold)
                group.subscribe(self.of[group.key])

        self.probe = ProbeSubscriber[GroupedPublisher[int, int]](request, on_item=take_group)
        group_by(self.source, lambda x: x % 10, **options).subscribe(self.probe)
