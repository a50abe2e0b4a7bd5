"""How a link is named wherever somebody looks at it: the same at both of its sides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class LinkName:
    """The name of a link, which its client and its node can both tell.

    The client is the side that has opened the connection. `container`, `does` and `link` are enough to find the other
    end: a container uses the name of a link once in each direction.

    Attributes:
        container: The container id of the client.
        address: The name of the address, as in the attach; "" if the client has left it to the node.
        does: What the client does there.
        user: The user of the client, as in its url; "" for none. With a client certificate only the node knows it.
        link: The name of the link on the wire.
    """

    container: str
    address: str
    does: Literal["publish", "subscribe"]
    user: str
    link: str

    @property
    def number(self) -> str:
        """The number of the link in its container; the name on the wire, if the client gives names of its own."""
        return self.link.removeprefix(f"{self.container}/")

    def __str__(self) -> str:
        """Return the name as text for people, cut where it is long."""
        way = "to" if self.does == "publish" else "from"
        where = f"{way} {self.address!r:.80}" if self.address else f"{way} no address of its own"
        user = f", user {self.user!r:.80}" if self.user else ""
        return f"link {self.number:.80} of {self.container!r:.80} {where}{user}"
