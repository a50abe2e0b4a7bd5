"""HTTP for people and tools that look at a node: metrics, probes, its state. See `Node.listen_http`.

Nothing here runs, or is imported, unless it is asked for. What is shown comes from the counters that each client can
read at `$statistics`.

    conversation   one client's requests and answers, by the state machine of h11
    listener       the sockets, the bounds and who is let in
    pages          the paths, and what is there
    metrics        the counters as the text that Prometheus reads
    client_metrics the numbers of a client's links, for the HTTP of its own program
    metric_tables  what each counter is called there, and what it means
"""

from rstreams.web.client_metrics import client_metrics_text
from rstreams.web.metrics import metrics_text

__all__ = ["client_metrics_text", "metrics_text"]


def __dir__() -> list[str]:
    return __all__
