"""The group engine: pure decisions about Kafka groups. No IO, clock, randomness or logging."""
