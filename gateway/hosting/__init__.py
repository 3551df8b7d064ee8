"""The life of one group behind the gateway, as a pure machine.

`HostedGroup` (`group.py`) takes inputs and returns effects (`inputs.py`, `effects.py`). It uses no
Trio, sockets, clock, randomness or logging; the group's task (`gateway/groups/group_driver.py`)
carries its effects out, and reports their results as further inputs.

All groups share the settings, and what they learn from each other (`rules.py`). The machine
consists of four smaller ones, which share one list of effects (`group_parts.py`):

- `GroupRouting` (`group_routing.py`): does the gateway or the cluster coordinate the group? A group
  with members in the cluster is forwarded, because its partitions must not have two owners.
- `LoggedEngine` (`logged_engine.py`): the group's engine, its log, and the batches between them.
  `states.py` lists its phases, from unloaded to writing.
- `Anchor` (`anchor.py`): the gateway's own member in the cluster's group of the same name. It keeps
  other members out, and commits are sent under its ids, which the cluster can fence.
- `Move` (`move.py`): an adoption or a release, which changes the coordinator of a live group. It is
  at most one machine at a time, `Adopting` or `Releasing`.

Whatever the gateway is in the cluster's group, one machine keeps it there (`upstream_member.py`):
the anchor, and during a move the leader's member, the guard and the opener are policies of it.

A call of a client goes through stages (`call_stages.py`) until it waits for one of the four or has
its answer:

    PLACING -> CHECKING -> ADMITTING -> DECIDING -> CONFIRMING -> ANSWERED
    who        would the   the anchor   the engine  the cluster
    answers    engine      holds the    decides,    confirms the
               refuse it   group        log writes  anchor

The first stage reads a table of the group's situation and the kind of the call (`routes.py`). A
join that the engine would accept has a lookup of its own before the anchor joins for it (LOOKING).
`WaitingCalls` (`waiting_calls.py`) keeps the order of calls that wait, and how long each does.
`CommitsInFlight` (`commits.py`) has the commits that have not certainly ended. `NewestConnections`
(`newest_connections.py`) tells what has waited on a connection that its client has given up. A move
that gives the group back has a `Recall` (`recall.py`): the members that may still have partitions
(`holders.py`), and their answers.
`WatchedGroups` (`forwarded.py`) knows what passes by of groups that the cluster serves.

Three orders always hold. Nothing is reserved for a call that the engine would refuse. No member
joins, and no answer with partitions leaves, unless the anchor holds the group. No answer leaves
before the records behind it are written.

Calls at rest, which change nothing that has to be stored, skip the stages: `answer_at_rest` and
`send_at_rest`. `states.py` has the legal transitions of all stages; `gateway/docs/states.md` draws
them.
"""
