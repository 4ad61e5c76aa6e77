"""The parts of ColdNotify, a folder and a row each. All code that depends on a part reads its row (docs/extending.md).

The code of the shipped parts is in packages of their own, coldnotify_matcher and so on. Rows name these packages, and
import none of them.
"""
