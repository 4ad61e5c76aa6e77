"""Objects of a partition: versions, descriptions, history."""
