"""The statistics behind sweeps and comparisons: numpy only, pure, seeded. Knows nothing of cells or brokers."""
