"""RabbitMQ 4 as a cluster of three brokers on this machine, with streams that are kept by all of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rstreams.net.rabbitmq_management import RabbitMQManagement
from tests.interop.rabbitmq import Home, RabbitMQ

NAMES: Final = ("one", "two", "three")


class Cluster:
    """Three brokers that are one.

    Attributes:
        brokers: Each of them.
    """

    def __init__(self, root: Path) -> None:
        """Prepare brokers installed in `root`."""
        self._home = Home(root)
        self.brokers = [RabbitMQ(root, name=name, home=self._home) for name in NAMES]

    @property
    def url(self) -> str:
        """Where a client of several urls connects to: those of all brokers, with commas between."""
        return ",".join(broker.url for broker in self.brokers)

    def start(self) -> None:
        """Start the brokers, and have the second and the third join the first."""
        self._home.epmd.start()
        first, *others = self.brokers
        first.start()
        for broker in others:
            broker.start()
            for command in (("stop_app",), ("join_cluster", first.name), ("start_app",)):
                broker.control(*command)
        for broker in self.brokers:
            broker.control("await_online_nodes", str(len(self.brokers)))

    def heal(self) -> None:
        """Start the brokers again that were killed."""
        for broker in self.brokers:
            if not broker.is_running:
                broker.start()

    def stop(self) -> None:
        """End the brokers, and forget their state."""
        for broker in self.brokers:
            broker.kill()
        self._home.remove()

    def leader(self, stream: str) -> RabbitMQ:
        """Return the broker that writes a stream.

        Errors: `LookupError` while there is none.
        Context: Any broker that runs is asked; it may take some seconds until it knows that another one has died.
        """
        alive = next(broker for broker in self.brokers if broker.is_running)
        name = alive.evaluate(
            f'{{ok, Q}} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"{stream}">>)),'
            " {ok, Members} = rabbit_stream_coordinator:members(maps:get(name, amqqueue:get_type_state(Q))),"
            " [atom_to_list(Node) || {Node, {Pid, writer}} <- maps:to_list(Members), is_pid(Pid)]."
        )
        for broker in self.brokers:
            if broker.name in name:
                return broker
        msg = f"stream {stream!r} has no leader"
        raise LookupError(msg)


async def declare_super_stream(
    management: RabbitMQManagement, name: str, partitions: int, arguments: Mapping[str, str | int] = {}
) -> list[str]:
    """Make a super stream as RabbitMQ's own tools do; return the names of its partitions.

    It is an exchange, and a stream for each partition that is bound to it by the partition's number.
    """
    await management.declare_exchange(name, type="direct", arguments={"x-super-stream": True})
    streams = [f"{name}-{number}" for number in range(partitions)]
    for number, stream in enumerate(streams):
        await management.declare_queue(stream, type="stream", arguments=dict(arguments))
        await management.bind(stream, name, str(number), arguments={"x-stream-partition-order": number})
    return streams
