"""Claims-based security: a peer lets links in by tokens, which are put to its node `$cbs`.

`connect(url, cbs=source)` asks `source` for a `Token` before the first link to an address is attached, puts it, and
does so again before it expires. `SharedAccessKey` is such a source, for Azure Service Bus and Event Hubs.

Spec: OASIS AMQP Claims-based Security 1.0, working draft 5, in the form that Azure has given it (`put-token`).
"""

from rstreams.net.cbs.shared_access import SharedAccessKey
from rstreams.net.cbs.tokens import Token, TokenSource

__all__ = ["SharedAccessKey", "Token", "TokenSource"]
