"""Server-side assignors of installed packages, each run in a process of its own."""
