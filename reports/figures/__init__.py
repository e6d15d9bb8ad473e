"""Everything that a reader will see, computed once. Pure: no Spark, no files, no markup."""
