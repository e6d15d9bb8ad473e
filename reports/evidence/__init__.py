"""What happened in a cell, told from its events: history, recovery, predictions, and evidence that is missing."""
