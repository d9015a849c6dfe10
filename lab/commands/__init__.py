"""One module a command: a dataclass of options, and a function that runs it and returns an exit code."""
