"""From a run directory to verdicts and one offline page. It knows about brokers, load and faults only what the run
directory says."""
