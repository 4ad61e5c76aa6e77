"""A session and its parts: each is written by its own file only."""

import ast
from pathlib import Path

from coldnotify_gateway import core

CORE = Path(core.__file__).parent
FREE = {"counters", "_counters", "one", "message", "frame", "said"}
"""What may be written from outside: counts; the timers' own note on what they hold; a message that is being made."""


def test_what_changes_a_part_is_in_its_own_file():
    """h11's first rule: everything that changes a state machine is in the file that holds its table."""
    found = []
    for path in sorted(CORE.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            targets = node.targets if isinstance(node, ast.Assign) else []
            if isinstance(node, ast.AugAssign | ast.AnnAssign):
                targets = [node.target]
            for target in targets:
                for one in target.elts if isinstance(target, ast.Tuple) else [target]:
                    if isinstance(one, ast.Attribute):
                        owner = one.value.attr if isinstance(one.value, ast.Attribute) else getattr(one.value, "id", "")
                        if not (isinstance(one.value, ast.Name) and owner == "self") and owner not in FREE:
                            found.append(f"{path.name}:{node.lineno} writes {ast.unparse(one)}")
    assert found == []
