"""Everything of groupferry that touches the world: sockets, config, logs, the command line."""
