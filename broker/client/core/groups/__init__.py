"""A member of a consumer group, as pure decisions: both protocols, the assignors of the classic one, its encodings."""
