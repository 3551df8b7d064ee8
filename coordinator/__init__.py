"""The group engine: pure decisions about Kafka consumer groups. No IO, clock, randomness or logging."""
