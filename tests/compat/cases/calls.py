"""Calls: requests, management and statistics, errors with conditions, TLS and passwords."""

from __future__ import annotations

from tests.compat.pair import Pair
from tests.net.certificates import Files


async def requests(pair: Pair) -> None:
    """Requests to the node and through a queue, one reply and many, and a refusal."""
    client, url = pair.client, await pair.listening()
    await pair.node("answer", "n", "ask")
    await pair.node("add", "n", "queue", "shout")
    await client("connect", "c", url)
    pair.expect("replies", await client("request", "c", "ask", [1, 2, 3]), [2, 4, 6])
    pair.expect("a stream of replies", await client("replies", "c", "ask/count", 300, 300), list(range(300)))
    pair.expect("the first of many replies", await client("replies", "c", "ask/count", 10**6, 5), [0, 1, 2, 3, 4])
    pair.counted += 308
    await pair.fails(
        "a request refused",
        client("request", "c", "ask", [-1]),
        type="RequestFailed",
        condition="shop:unknown",
        description="no -1 here",
    )
    await client("respond", "c", "shout")
    await pair.node("connect", "other side", url)
    pair.expect("through a queue", await pair.node("request", "other side", "shout", [4, 5]), [8, 10])
    await pair.node("respond", "other side", "shout")
    await client("leave", "c")
    await client("connect", "c", url)
    pair.expect("the other way round", await client("request", "c", "shout", [6, 7]), [12, 14])
    pair.counted += 4


async def management(pair: Pair) -> None:
    """Each call of management, and the statistics."""
    client, url = pair.client, await pair.listening()
    await pair.node("add", "n", "queue", "dead")
    await pair.node("add", "n", "queue", "work", dead_letters="dead", max_deliveries=1)
    await pair.node("add", "n", "log", "events", retention_items=100)
    await client("connect", "c", url, container_id="shop")
    declared = await client("manage", "c", "declare_queue", ["bills"], capacity=50)
    pair.expect(
        "declared", (declared["name"], declared["kind"], declared["options"]["capacity"]), ("bills", "queue", 50)
    )
    await client("manage", "c", "declare_multicast", ["prices"], overflow="drop_oldest")
    await client("manage", "c", "declare", ["logs", "readings"], retention_items=10)
    names = [each["name"] for each in await client("manage", "c", "addresses")]
    pair.require("addresses", {"dead", "work", "events", "bills", "prices", "readings"} <= set(names))
    pair.expect("queues", [each["name"] for each in await client("manage", "c", "queues")], ["dead", "work", "bills"])

    await client("publish", "c", "work", 12)
    await client("open", "r", "c", "work", settlement="manual")
    await client("next", "r", 12, "reject")
    await pair.queue_has("work", rejected=12, dead_lettered=12)
    [link] = await client("manage", "c", "subscriptions", ["work"])
    pair.expect("subscriptions", (link["container"], link["does"], link["unsettled"]), ("shop", "subscribe", 0))
    await client("manage", "c", "end_subscription", [link["number"]])
    await pair.fails("a subscription that was ended", client("next", "r", 1), type="LinkDetached")
    moved = await client("manage", "c", "move_dead_letters", ["dead"])
    pair.expect("moved", moved, {"moved": 12, "no_room": {}, "no_address": {}})
    pair.expect("purged", await client("manage", "c", "purge", ["work"]), 12)
    await client("publish", "c", "bills", 3)
    pair.expect("deleted", await client("manage", "c", "delete", ["bills"]), 3)
    pair.counted += 27
    await pair.fails(
        "a queue that is gone", client("manage", "c", "queue", ["bills"]), type="ManagementRefused", status=404
    )

    told = await client("statistics", "c")
    found = await pair.node("counters", "n")
    for kind in ("queues", "multicasts", "logs", "served"):
        pair.expect(f"names of {kind}", sorted(told[kind]), sorted(found[kind]))
    counters, wanted = (
        {name: value for name, value in numbers["queues"]["work"].items() if not name.endswith("_s")}  # times go on
        for numbers in (told, found)
    )
    pair.expect("statistics of a queue", counters, wanted)
    info = await client("manage", "c", "queue", ["work"])
    pair.expect("management's statistics", info["statistics"]["enqueued"], found["queues"]["work"]["enqueued"])


async def errors(pair: Pair) -> None:
    """Errors with their conditions, texts and infos, from the node to the client and back."""
    client, url = pair.client, await pair.listening()
    await pair.node("add", "n", "queue", "small", capacity=5, when_full="reject")
    await pair.node("serve", "n", "closing", 10, ends="shop:closed")
    await client("connect", "c", url)
    await client("open", "nowhere", "c", "nowhere")
    await pair.fails(
        "no such address", client("next", "nowhere", 1), type="LinkDetached", condition="amqp:not-found", info={}
    )
    await pair.fails("no such target", client("publish", "c", "nowhere", 1), condition="amqp:not-found")
    await client("open", "queue", "c", "small", start="first")
    await pair.fails("no positions here", client("next", "queue", 1), condition="amqp:not-allowed")
    await client("open", "closing", "c", "closing")
    pair.judge("before an error", await client("next", "closing", 10), range(10))
    await pair.fails(
        "a stream that fails",
        client("next", "closing", 1),
        condition="shop:closed",
        description="the shop has closed",
        info={"hours": "9 to 5"},
    )
    sent = await client("publish", "c", "small", 8)
    refused = list(sent["refused"].values())
    pair.expect("accepted", (sent["accepted"], sent["unknown"]), (5, 0))
    pair.expect("refused", {each["condition"] for each in refused}, {"amqp:resource-limit-exceeded"})
    await client("open", "small", "c", "small")
    pair.judge("what was accepted", await client("next", "small", 5), range(5))


async def security(pair: Pair) -> None:
    """SASL PLAIN over TLS, a wrong password, and a certificate that is not trusted."""
    client, files = pair.client, Files(pair.folder)
    await pair.node("node", "n", users={"alice": "sesame"})
    await pair.node("add", "n", "queue", "work")
    certificate, key, ca = str(files.node), str(files.node_key), str(files.ca)
    url = await pair.node("listen", "n", certificate=certificate, key=key)
    place = url.removeprefix("amqps://")
    await client("connect", "c", f"amqps://alice:sesame@{place}", ca=ca)
    await client("publish", "c", "work", 200)
    await client("open", "r", "c", "work")
    pair.judge("over TLS", await client("next", "r", 200), range(200))
    wrong = client("connect", "w", f"amqps://alice:guess@{place}", ca=ca)
    await pair.fails("a wrong password", wrong, type="AuthenticationFailed")
    await pair.fails(
        "nobody's certificate", client("connect", "u", f"amqps://alice:sesame@{place}"), type="ConnectFailed"
    )
