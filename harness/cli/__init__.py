"""The command line: options in, exit codes out. Data goes to stdout, progress and problems to stderr.

- `main`: how a command ends, and with which exit code
- `commands`: all commands, in the order of the help; begin here

Rooms, from the top to the bottom. Each imports only those below it, and rooms of one line do not know each other
(`lint-imports` checks this). The file commands.py of a room has the options of its commands and nothing else.

- `load`: commands that put load on a cluster
- `results`, `explore`, `suites`, `hosts`: runs that are over; the search for faults; suites and scenarios; this host
- `clusters`, `clients`: clusters that stay up or are somebody else's; clients that are programs
- `planning`: from suites and options to the cells that will run
- `environment`, `arguments`: what a command needs outside of itself; what stands on the command line

The first lines of each room list its modules; tests/repository/test_repository_rules.py holds that all are there.
"""
