"""What every part of the process uses: clocks, log lines, the journal, file descriptors. Imports no other room."""
