"""The parts of ColdNotify, a folder and a row each: what all of it that must know of a part reads (docs/extending.md).

The code of the parts that ship is in packages of their own, coldnotify_matcher and so on. Rows name it, and import
nothing of it.
"""
