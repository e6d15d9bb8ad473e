"""From a run directory to verdicts and one offline page; knows of brokers, load and faults what is written there."""
