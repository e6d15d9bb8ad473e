"""From a run directory to verdicts and one offline page. It knows of brokers, load and faults only what is there."""
