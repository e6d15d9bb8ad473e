"""The command line: options in, exit codes out. Data goes to stdout, progress and problems to stderr."""
