"""One connection, from Hello to its end; and when to connect again."""
