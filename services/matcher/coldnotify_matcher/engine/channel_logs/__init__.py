"""A log of channels as its partition's owner sees it: what was read of it, what is kept, who is told."""
