"""The command `coldnotify`: every part of the product, one by one or all together."""
