"""The one schema between load, faults and analysis, with its writer and reader. It knows nothing about these other
parts."""
