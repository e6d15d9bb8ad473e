"""The handlers of the APIs of share groups: one file for each API, named by its key, as in broker/node/handlers."""
