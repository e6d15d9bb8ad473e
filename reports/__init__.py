"""From a run directory to verdicts and one offline page; knows nothing of brokers, load or faults but what is written there."""
