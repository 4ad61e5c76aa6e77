"""A log of channels as its partition's owner sees it: what was read, what is kept, which sessions receive it."""
