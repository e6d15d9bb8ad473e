"""The pure decisions of a member of a consumer group: both group protocols, and the assignors and encodings of the
classic one."""
