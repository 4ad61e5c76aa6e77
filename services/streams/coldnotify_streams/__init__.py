"""Jobs over partitioned topics: what each partition's state machine needs so that nothing is lost."""
