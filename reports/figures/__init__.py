"""All figures of the report, computed once. Pure: no Spark, no files, no markup."""
