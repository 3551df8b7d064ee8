"""All of groupferry that does IO: sockets, configuration, logs, the command line."""
