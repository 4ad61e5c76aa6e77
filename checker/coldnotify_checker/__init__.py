"""What publishers were told and clients saw, judged against the promises: histories in, violations out."""
