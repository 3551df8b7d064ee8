"""Classic members of a consumer group: their requests, translated to epochs."""
