"""The streams of rows of a run: their schema, the segments written while running, and Parquet at rest."""
