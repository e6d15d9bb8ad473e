"""The one schema between load, faults and analysis, with its writer and reader; knows nothing of the rest."""
