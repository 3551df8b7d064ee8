"""The data path: client connections, their upstream connections, and the requests between them.

It decides which bytes pass unchanged and which are rewritten. Everything about groups is behind
`group_apis`.

Each broker of the cluster has a listener (`listeners.py`, `server.py`), so that a client's
connection to a port is a connection to that broker. A client connection (`connection.py`) has one
upstream connection (`upstream_connection.py`), opened when the first request has to go up. Both
are `FrameSource`s (`stream.py`): buffers with a size, which read no further while the other side
does not take what they have.

`api_table.py` says of each api what happens to it: relayed (the bytes pass, without a codec),
rewritten (addresses and names of the answer change), inspected (checked, then relayed), or answered
by the gateway. An api that is not in the table is not offered.

A Kafka connection answers requests in the order in which they arrived. Each request reserves its
place when it is read (`UpstreamConnection.expect`, or an answer of our own), and its answer leaves
in that place. After an answer that cannot be given, nothing more is sent on the
connection. A client that has gone ends the work on its requests, except for what counts without an
answer: records, offsets, leaves (`client_lifetime.py`).

One task (`poller.py`) watches all sockets and relays small frames itself. A connection's own tasks
run only for what takes time, and end when there has been nothing to do for a while
(`connection_tasks.py`).

All memory that clients can fill is shared under named limits, of which one user or address gets a
part (`connection_limiter.py`, `held_requests.py`, `held_answers.py`, `gateway/quotas/`).
"""
