"""The gateway's own client of the upstream cluster. It is independent of the data path, and knows
groups only by the id that it looks up a coordinator for."""
