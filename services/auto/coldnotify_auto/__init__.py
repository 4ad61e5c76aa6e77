"""`coldnotify auto FILE`: sources that publish changes of databases, folders and addresses, by rules."""
