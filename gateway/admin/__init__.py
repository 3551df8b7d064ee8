"""The admin API and the page: the board and its commands, by HTTP."""
