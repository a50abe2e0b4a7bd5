"""All events of rstreams: name, logger, level, sentence and fields. The guide to the events of the log explains each.

A name has the thing first, and then what has happened to it. Names and fields stay: alerts of users look for them. A
level says who should read it: ERROR needs a person, WARNING should be looked at, INFO tells what happened, and DEBUG is
for the makers of a program.
"""

from __future__ import annotations

from logging import DEBUG, ERROR, INFO, WARNING
from typing import Final

from rstreams._events.event import LogEvent

_STREAMS = "rstreams"
_NET = "rstreams.net"
_RECONNECT = "rstreams.net.reconnect"  # its own: programs with `on_status` may tell of losses themselves
_NODE = "rstreams.node"
_STORE = "rstreams.store"
_WEB = "rstreams.web"
_CLI = "rstreams.cli"

# streams

STREAM_ERROR_DROPPED = LogEvent(
    "stream.error_dropped", _STREAMS, ERROR, "%(happened)s, after its subscription had ended"
)
STREAM_SUBSCRIBER_RAISED = LogEvent(
    "stream.subscriber_raised", _STREAMS, ERROR, "a subscriber of a shared stream raised; it counts as cancelled"
)
STREAM_TASK_FAILED = LogEvent(
    "stream.task_failed", _STREAMS, ERROR, "a task of a shared stream failed when it had no subscribers"
)
BACKGROUND_FAILED = LogEvent(
    "background.failed", "rstreams.blocking", ERROR, "%(call)s in the background has failed: %(why)s"
)
ASYNCIO_OTHER_THREAD = LogEvent(
    "asyncio.other_thread", "rstreams.aio", DEBUG, "trio waits for the network in a thread of its own"
)
PROGRAM_ENDS = LogEvent(
    "program.ends",
    "rstreams.runtime",
    INFO,
    "%(signal)s: the program ends when the work in hand is done, in at most %(seconds)g s",
)
PROGRAM_NOT_DRAINED = LogEvent(
    "program.not_drained", "rstreams.runtime", WARNING, "a connection or a node could not be drained: %(why)s"
)

# connections of a client

CONNECTION_LOST = LogEvent(
    "connection.lost", _RECONNECT, WARNING, "connecting again in %(seconds).3g s: %(why)s", "peer"
)
CONNECTION_OPENED = LogEvent("connection.opened", _RECONNECT, INFO, "the connection to %(peer)s is connected")
CONNECTION_CLOSED = LogEvent("connection.closed", _RECONNECT, INFO, "the connection to %(peer)s is closed")
EXPLAIN_FAILED = LogEvent("explain.failed", _NET, ERROR, "a question at $explain failed")
CALLBACK_RAISED = LogEvent("callback.raised", _NET, ERROR, "%(callback)s raised")
TOKEN_REFUSED = LogEvent("token.refused", _NET, WARNING, "asking again in %(seconds).3g s: %(why)s")
TOKEN_NOT_RENEWED = LogEvent(
    "token.not_renewed", _NET, WARNING, "a token could not be renewed, asking again in %(seconds).3g s: %(why)s"
)
TOKEN_EXPIRED = LogEvent("token.expired", _NET, WARNING, "a token has expired and could not be renewed: %(why)s")

# links of a client

_LOOK = "print(connection.explain()) shows what each link waits for"
LINK_NO_CREDIT = LogEvent(
    "link.no_credit",
    _NET,
    WARNING,
    "%(link)s has granted no credit for %(seconds).0f s: %(waiting)s. The address may be full, or nobody may consume "
    f"from it or subscribe to it; its statistics tell ($statistics, at an rstreams node), and {_LOOK}",
)
LINK_CREDIT_AGAIN = LogEvent(
    "link.credit_again", _NET, INFO, "%(link)s has granted credit again, after %(seconds).1f s"
)
LINK_WINDOW_SHUT = LogEvent(
    "link.window_shut",
    _NET,
    WARNING,
    "%(link)s takes nothing: the peer's session window is closed since %(since)s (%(seconds).0f s): %(waiting)s. A "
    f"broker closes it while it is short of memory or disk; {_LOOK}",
)
LINK_WINDOW_OPEN_AGAIN = LogEvent(
    "link.window_open_again", _NET, INFO, "%(link)s has opened the session window again, after %(seconds).1f s"
)
LINK_UNANSWERED = LogEvent(
    "link.unanswered",
    _NET,
    WARNING,
    f"%(link)s has not answered the attach for %(seconds).0f s: %(waiting)s; {_LOOK}",
)
LINK_ANSWERED = LogEvent("link.answered", _NET, INFO, "%(link)s has answered the attach, after %(seconds).1f s")
LINK_GIVEN_UP = LogEvent("link.given_up", _NET, WARNING, "%(why)s", "link")
LINK_LOST = LogEvent("link.lost", _RECONNECT, WARNING, "attaching links again in %(seconds).3g s: %(why)s")
LINK_MESSAGES_GONE = LogEvent(
    "link.messages_gone", _NET, WARNING, "%(why)s; the link has a filter, and goes on", "offset", "first"
)
LINK_PLACE_MISSING = LogEvent("link.place_missing", _NET, WARNING, "%(link)s: %(why)s")
SESSION_CUT_OFF = LogEvent("session.cut_off", _NET, WARNING, "%(why)s", "peer")
SUBSCRIBER_RAISED = LogEvent(
    "subscriber.raised",
    _NET,
    ERROR,
    "the subscriber of '%(address)s' raised; its subscription is cancelled (Reactive Streams rule 2.13)",
)
MESSAGE_NOT_DECODED = LogEvent(
    "message.not_decoded",
    _NET,
    WARNING,
    "an item from '%(address)s' cannot be decoded (%(count)d so far); on_failure='%(on_failure)s'",
)
MESSAGE_NOT_ENCODED = LogEvent(
    "message.not_encoded",
    _NET,
    ERROR,
    "item %(number)d of a subscription to '%(address)s', counted from 0: %(why)s",
)
DEAD_LETTERS_NOT_SENT = LogEvent(
    "dead_letters.not_sent",
    _NET,
    WARNING,
    "%(letters)s to '%(address)s' could not be sent, and the failed messages are given back: %(why)s",
)
HANDLER_FAILED = LogEvent(
    "handler.failed",
    _NET,
    WARNING,
    "the handler of '%(address)s' failed (%(count)d so far); on_failure='%(on_failure)s'",
)
REQUEST_FAILED = LogEvent("request.failed", _NET, WARNING, "the handler of requests to '%(address)s' failed")
REQUEST_STREAM_FAILED = LogEvent(
    "request.stream_failed", _NET, WARNING, "the stream of replies to a request to '%(address)s' failed"
)
REPLY_FAILED = LogEvent("reply.failed", _NET, WARNING, "a reply to '%(address)s' failed: %(why)s")
REPLY_NOT_SENT = LogEvent("reply.not_sent", _NET, DEBUG, "a reply to '%(address)s' could not be sent: %(why)s")

# clients of a node

CLIENT_LOST = LogEvent("client.lost", _NET, INFO, "a client is gone: %(why)s", "peer")
CLIENT_CUT_OFF = LogEvent("client.cut_off", _NET, WARNING, "a client is gone: %(why)s", "peer")
CLIENT_SILENT = LogEvent("client.silent", _NET, DEBUG, "a client at %(peer)s hung up without a word")
CLIENT_FAILED = LogEvent("client.failed", _NET, ERROR, "the connection from %(peer)s failed")
CLIENT_REFUSED = LogEvent("client.refused", _NET, WARNING, "refused a connection from %(peer)s: %(why)s")
LOGIN_REFUSED = LogEvent("login.refused", _NET, WARNING, "refused a connection from %(peer)s: %(why)s")
PASSWORD_NOT_CHECKED = LogEvent("password.not_checked", _NET, ERROR, "a password could not be checked")
CERTIFICATE_DATES = LogEvent("certificate.dates", _NET, WARNING, "%(listener)s: %(why)s")
CERTIFICATE_USERS_RAISED = LogEvent(
    "certificate.users_raised", _NET, ERROR, "certificate_users raised for %(subject)s, who is not let in"
)
HTTP_REFUSED = LogEvent("http.refused", _WEB, WARNING, "refused an HTTP client, %(peer)s: %(why)s")
HTTP_SILENT = LogEvent("http.silent", _WEB, DEBUG, "refused an HTTP client, %(peer)s: %(why)s")
HTTP_LOGIN_REFUSED = LogEvent(
    "http.login_refused",
    _WEB,
    WARNING,
    "refused an HTTP client, %(peer)s: the user '%(user)s' or its password is wrong",
)
HTTP_FAILED = LogEvent("http.failed", _WEB, ERROR, "the HTTP client %(peer)s failed")

# links of a node

ATTACH_REFUSED = LogEvent(
    "attach.refused", _NODE, WARNING, "refused link '%(link)s' of user '%(user)s' at %(peer)s: %(why)s"
)
ATTACH_FAILED = LogEvent(
    "attach.failed",
    _NODE,
    ERROR,
    "an address raised while link '%(link)s' was attached (source '%(source)s', target '%(target)s'); the link is "
    "refused",
)
CONSUMER_ENDED = LogEvent(
    "consumer.ended",
    _NODE,
    WARNING,
    "the link '%(link)s' of container '%(container)s', which receives from '%(address)s', has ended: %(why)s",
)
CONSUMER_FORGOTTEN = LogEvent("consumer.forgotten", _NODE, WARNING, "%(why)s (container '%(container)s')")
CONSUMER_TOO_SMALL = LogEvent(
    "consumer.too_small",
    _NODE,
    WARNING,
    "queue '%(address)s': %(why)s; it waits for another consumer than link '%(link)s'",
)
CONSUMER_RAISED = LogEvent(
    "consumer.raised",
    _NODE,
    ERROR,
    "address '%(address)s': a subscriber raised in on_next; its subscription is ended",
)
CONSUMER_RAISED_AGAIN = LogEvent(
    "consumer.raised_again", _NODE, ERROR, "address '%(address)s': it also raised in on_error"
)
PRODUCER_TOO_MUCH = LogEvent(
    "producer.too_much",
    _NODE,
    WARNING,
    "address '%(address)s': a producer sent more than was requested; its link is ended",
)
PRODUCER_ENDED = LogEvent("producer.ended", _NODE, WARNING, "a link that sends to a node is ended: %(why)s")
PRODUCER_FAILED = LogEvent(
    "producer.failed", _NODE, ERROR, "an address of the node raised; the producer's link is ended"
)
ITEM_NOT_SENT = LogEvent(
    "item.not_sent",
    _NODE,
    ERROR,
    "item %(number)d of a subscription to '%(address)s', counted from 0, cannot be sent: %(why)s",
)
SERVED_ITEM_NOT_SENT = LogEvent(
    "served.item_not_sent",
    _NODE,
    ERROR,
    "the item at %(position)d of the served stream '%(address)s' cannot be sent: %(why)s",
)
SERVED_RAISED = LogEvent(
    "served.raised",
    _NODE,
    ERROR,
    "from_offset(%(position)d) of the served stream '%(address)s' raised; the link is ended",
)
REQUEST_UNANSWERED = LogEvent("request.unanswered", _NODE, WARNING, "a request to '%(address)s' could not be answered")
MANAGEMENT_FAILED = LogEvent(
    "management.failed", _NODE, ERROR, "a request to '%(address)s' failed: '%(method)s' '%(path)s'"
)
MANAGEMENT_CHANGED = LogEvent(
    "management.changed", _NODE, INFO, "user '%(user)s' at %(peer)s has changed the node: %(method)s %(path)s", "status"
)
MANAGEMENT_NOT_SAFE = LogEvent(
    "management.not_safe", _NODE, ERROR, "%(method)s %(path)s is not safe in the store: %(why)s"
)

# queues, multicasts and logs

QUEUE_FULL = LogEvent("queue.full", _NODE, WARNING, "producers wait: %(why)s", "address", "stored")
QUEUE_FREE_AGAIN = LogEvent(
    "queue.free_again",
    _NODE,
    INFO,
    "%(kind)s '%(address)s' is less than half full again: %(stored)d stored, after %(seconds).1f s",
)
QUEUE_REFUSES = LogEvent(
    "queue.refuses", _NODE, WARNING, "%(kind)s '%(address)s' refuses a message (%(count)d so far): %(why)s"
)
MESSAGE_DROPPED = LogEvent(
    "message.dropped",
    _NODE,
    WARNING,
    "%(kind)s '%(address)s' is full: %(which)s is dropped (%(count)d so far)",
)
MESSAGE_MISSED = LogEvent(
    "message.missed",
    _NODE,
    WARNING,
    "multicast '%(address)s': a slow subscriber loses its oldest item (%(count)d so far)",
)
MESSAGE_DEAD_LETTERED = LogEvent(
    "message.dead_lettered",
    _NODE,
    WARNING,
    "%(kind)s '%(address)s': a message goes to the dead letters (%(count)d so far): %(why)s",
)
MESSAGE_BURIED = LogEvent(
    "message.buried",
    _NODE,
    WARNING,
    "%(kind)s '%(address)s': a message is dropped, because there are no dead letters (%(count)d so far): %(why)s",
)
MESSAGES_MISSING = LogEvent(
    "messages.missing",
    _NODE,
    ERROR,
    "%(kind)s '%(address)s': %(count)d messages are missing: what came is not what is here, was settled or was "
    "dropped; report it",
)
DEAD_LETTERS_REFUSED = LogEvent(
    "dead_letters.refused",
    _NODE,
    ERROR,
    "queue '%(address)s': its dead letters are not taken (%(why)s); they are sent again",
)
DEAD_LETTERS_TAKEN_AGAIN = LogEvent(
    "dead_letters.taken_again", _NODE, WARNING, "queue '%(address)s': its dead letters are taken again"
)
DEAD_LETTERS_IN_MEMORY = LogEvent("dead_letters.in_memory", _NODE, WARNING, "%(why)s", "address", "dead_letters")
QUEUE_IN_MEMORY = LogEvent(
    "queue.in_memory",
    _NODE,
    WARNING,
    "queue '%(address)s' is declared as durable, and its messages are in memory: the node has no store",
)
QUEUE_STOPPED = LogEvent(
    "queue.stopped", _NODE, ERROR, "%(kind)s '%(address)s': it hands out no more messages from the disk: %(why)s"
)
WISH_IGNORED = LogEvent(
    "wish.ignored",
    _NODE,
    WARNING,
    "%(kind)s '%(address)s' ignores %(wish)s: %(why)s; the first to ask is %(peer)s",
)
GROUP_LOST_MESSAGES = LogEvent(
    "group.lost_messages",
    _NODE,
    WARNING,
    "group '%(group)s' of log '%(address)s': the messages from offset %(first)d to %(last)d were deleted before they "
    "were settled; it goes on with the oldest one that is there",
)
LOG_KEY_RAISED = LogEvent(
    "log.key_raised",
    _NODE,
    ERROR,
    "a log's function for keys raised; the message counts as one without a key",
)
LOG_KEY_WRONG = LogEvent(
    "log.key_wrong",
    _NODE,
    ERROR,
    "a key of type %(type)s cannot be used: it must be a text, bytes, a number, a UUID or a time",
)
LOG_NOT_COMPACTED = LogEvent("log.not_compacted", _NODE, ERROR, "log '%(address)s' is not compacted: %(why)s")

# the store of a node

STORE_OPENED = LogEvent(
    "store.opened", _NODE, INFO, "store '%(store)s' was opened in %(seconds).2f s: %(what)s", "messages"
)
STORE_DAMAGED = LogEvent("store.damaged", _STORE, ERROR, "%(why)s", "store")
STORE_UNREADABLE = LogEvent("store.unreadable", _STORE, ERROR, "%(why)s; it is tried again", "store")
STORE_READABLE_AGAIN = LogEvent("store.readable_again", _STORE, WARNING, "store '%(store)s' can be read again")
STORE_UNWRITABLE = LogEvent(
    "store.unwritable",
    _STORE,
    ERROR,
    "%(why)s; new messages are refused, and everything else is written later",
    "store",
)
STORE_WRITABLE_AGAIN = LogEvent(
    "store.writable_again", _STORE, WARNING, "store '%(store)s' can be written again after %(seconds).0f s"
)
STORE_LOCKED = LogEvent("store.locked", _STORE, WARNING, "%(why)s; it waits until that program is through", "store")
STORE_UNLOCKED = LogEvent("store.unlocked", _STORE, WARNING, "store '%(store)s' is not locked any more")
STORE_SLOW_SYNC = LogEvent(
    "store.slow_sync", _STORE, WARNING, "store '%(store)s': a commit took %(seconds).1f s until it was on the disk"
)
STORE_GIVEN_UP = LogEvent(
    "store.given_up",
    _STORE,
    ERROR,
    "%(why)s; %(count)d changes are given up: settled messages may come again when the store is opened",
    "store",
)
STORE_FAILED = LogEvent("store.failed", _STORE, ERROR, "store '%(store)s': its thread has failed")
STORE_NOT_CLOSED = LogEvent("store.not_closed", _STORE, ERROR, "store '%(store)s': it was not closed in order")
STORE_TABLES_OPEN = LogEvent("store.tables_open", _STORE, ERROR, "store '%(store)s': the tables cannot be closed")

# the node as a process

NODE_DRAINS = LogEvent(
    "node.drains",
    _CLI,
    INFO,
    "the node finishes the work under way, in at most %(seconds)g s; another signal ends it at once",
)
NODE_DRAINED = LogEvent("node.drained", _NODE, INFO, "the node ends: %(what)s", "kept", "lost", "unsettled")
NODE_NOT_DRAINED = LogEvent("node.not_drained", _NODE, WARNING, "the node ends: %(what)s", "kept", "lost", "unsettled")
CONFIG_READ_AGAIN = LogEvent(
    "config.read_again", _CLI, INFO, "%(file)s has been read again: users, permissions, limits and certificates"
)
CONFIG_WRONG = LogEvent("config.wrong", _CLI, ERROR, "%(why)s", "file")
CONFIG_NOT_USED = LogEvent(
    "config.not_used",
    _CLI,
    ERROR,
    "%(file)s is not used: the old users, permissions, limits and certificates stay",
)
CONFIG_NEEDS_RESTART = LogEvent(
    "config.needs_restart", _CLI, WARNING, "%(file)s has changes that need a restart: %(what)s"
)

EVENTS: Final = tuple(value for value in list(globals().values()) if isinstance(value, LogEvent))
"""All of them, in the order of this file."""
