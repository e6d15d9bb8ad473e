"""Parts that every other part uses: clocks, log lines, the journal, file descriptors. It imports no other package of
the node."""
