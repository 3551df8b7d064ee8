"""The group engine: pure decisions about Kafka groups. No IO, clock, randomness or logging.

One `GroupEngine` (`engine.py`) has one group. It has two entrances:

    step = engine.handle(event, now_ms=..., topics=...)   # decides, and changes nothing
    engine.apply(record)                                  # changes the state, and decides nothing

An event is a request of a client, an expired deadline, or news from the caller, such as a computed
target. `handle` forks the state (`copy_on_write/`), so that a step can write to its copy and read
what it wrote, while the original stays as it is. The step says what the caller has to do, in this
order:

1. Write the durable records to the log. If that fails, drop the step: nothing has happened.
2. Apply all records to the engine, the volatile ones as well.
3. Send the replies. A parked request, such as a JoinGroup, is answered by a later step.

Durable records are those that KIP-848 and Kafka persist. Volatile records are what a restart may
forget: parked requests, pending member ids, deadlines, the phase of a classic group. Loading a
group applies its durable records and does nothing else, so every rule has to hold after a replay
too.

A group is classic or consumer (`group/classic_group.py`, `group/consumer_group.py`). `handlers/`
receives an event and calls the rules for the kind of group that it meets: `classic/` for a classic
group; `native/` and `mixed/` for the two kinds of members of a consumer group, both of which share
`consumer/` (epochs, target, reconciliation). `conversion/` turns one kind of group into the other
within one step. A refusal is a `GroupError` with Kafka's error code, raised anywhere in a step; its
reply is then the only effect. `InvariantError` means a bug: the caller drops the engine and loads
the group again.

Rules are numbered in `gateway/docs/protocol/`, and cited here as `rule 3.5`, and deliberate
differences from Kafka as `DEV D35`.
"""
