"""What may happen and what may not: anomalies, where they are lawful, allowances and the verdict."""
