"""Reads a YAML file in sections that know their place: every error names file, line, key and what was
expected."""

import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

FILE_BYTES_MAX = 1024 * 1024
_SHOWN_CHARS_MAX = 60
_REQUIRED: Any = object()


class AutoFileError(ValueError):
    """The file cannot be used; the message is `file:line: key: what was expected`."""


class Section:
    """A mapping of the file. Reading a key takes it; `end()` refuses those that nobody took."""

    def __init__(self, file: Path, path: str, node: MappingNode) -> None:
        """`path`: its key in the file, "" for the whole. Raises AutoFileError for a key that is there twice."""
        self.file, self.path, self.line = file, path, node.start_mark.line + 1
        self._nodes: dict[str, tuple[Node, Node]] = {}
        self._taken: list[str] = []
        for key, value in node.value:
            name = key.value if isinstance(key, ScalarNode) else None
            if name is None:
                raise AutoFileError(f"{file}:{key.start_mark.line + 1}: {path}: expected a word as a key")
            if name in self._nodes:
                raise AutoFileError(f"{file}:{key.start_mark.line + 1}: {self._of(name)}: is there twice")
            self._nodes[name] = (key, value)

    def __contains__(self, key: str) -> bool:
        return key in self._nodes

    @property
    def keys(self) -> list[str]:
        """Returns the keys, in the file's order."""
        return list(self._nodes)

    def fault(self, key: str, words: str) -> AutoFileError:
        """Returns an error about a key, with the key's line."""
        line = self._nodes[key][0].start_mark.line + 1 if key in self._nodes else self.line
        return AutoFileError(f"{self.file}:{line}: {self._of(key)}: {words}")

    def text(self, key: str, expected: str, default: str = _REQUIRED) -> str:
        """Returns a text; a number is one, too. Raises AutoFileError."""
        node = self._take(key, expected, default)
        if node is None:
            return default
        if not isinstance(node, ScalarNode) or node.tag.endswith(":null") or not node.value:
            raise self._unexpected(key, expected, node)
        return str(node.value)

    def number(self, key: str, expected: str, default: float, *, minimum: float, maximum: float) -> float:
        """Returns a number within these limits. Raises AutoFileError."""
        node = self._take(key, expected, default)
        if node is None:
            return default
        try:
            value = float(node.value) if isinstance(node, ScalarNode) else float("nan")
        except ValueError:
            value = float("nan")
        if not minimum <= value <= maximum:
            raise self._unexpected(key, f"{expected}, from {minimum:g} to {maximum:g}", node)
        return value

    def columns(self, key: str, expected: str) -> dict[str, str] | None:
        """Returns names and the columns that they stand for: of `{fps, exposure}` each its own, of `{speed: fps}` the
        column fps. None if the key is missing. Raises AutoFileError."""
        node = self._take(key, expected, None)
        if node is None:
            return None
        found: dict[str, str] = {}
        pairs: list[tuple[Node, Node]]
        if isinstance(node, MappingNode):
            pairs = node.value
        elif isinstance(node, SequenceNode):
            pairs = [(one, one) for one in node.value]
        else:
            raise self._unexpected(key, expected, node)
        for name, column in pairs:
            if not isinstance(name, ScalarNode) or not isinstance(column, ScalarNode):
                raise self._unexpected(key, expected, node)
            if name.value in found:
                raise self.fault(key, f"{name.value!r} is there twice")
            found[name.value] = name.value if column.tag.endswith(":null") else str(column.value)
        if not found:
            raise self._unexpected(key, expected, node)
        return found

    def sections(self, key: str, expected: str) -> list["Section"]:
        """Returns the mappings of a list that is not empty. Raises AutoFileError."""
        node = self._take(key, expected, _REQUIRED)
        if not isinstance(node, SequenceNode) or not node.value:
            raise self._unexpected(key, expected, node)
        found = []
        for i, one in enumerate(node.value):
            if not isinstance(one, MappingNode):
                raise AutoFileError(
                    f"{self.file}:{one.start_mark.line + 1}: {self._of(key)}[{i}]: expected {expected}, found "
                    f"{_shown(one)}"
                )
            found.append(Section(self.file, f"{self._of(key)}[{i}]", one))
        return found

    def named(self, key: str, expected: str) -> Iterator[tuple[str, "Section"]]:
        """Yields the mappings of a mapping, each with its name. Raises AutoFileError."""
        node = self._take(key, expected, _REQUIRED)
        if not isinstance(node, MappingNode) or not node.value:
            raise self._unexpected(key, expected, node)
        names = Section(self.file, self._of(key), node)
        for name in names.keys:
            one = names._nodes[name][1]
            if not isinstance(one, MappingNode):
                raise names._unexpected(name, "a mapping with the key `kind`", one)
            yield name, Section(self.file, names._of(name), one)

    def end(self) -> None:
        """Raises AutoFileError for a key that was not taken."""
        for key in self._nodes:
            if key not in self._taken:
                close = difflib.get_close_matches(key, self._taken, 1)
                meant = f"; did you mean {close[0]}?" if close else ""
                raise self.fault(key, f"unknown key, expected one of {', '.join(sorted(self._taken))}{meant}")

    def _of(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def _take(self, key: str, expected: str, default: object) -> Node | None:
        self._taken.append(key)
        if key in self._nodes:
            return self._nodes[key][1]
        if default is _REQUIRED:
            raise self.fault(key, f"is missing, expected {expected}")
        return None

    def _unexpected(self, key: str, expected: str, node: Node | None) -> AutoFileError:
        return self.fault(key, f"expected {expected}, found {_shown(node)}")


def read_yaml(file: Path) -> Section:
    """Returns the file as a section. Raises AutoFileError."""
    try:
        with file.open("rb") as opened:
            content = opened.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise AutoFileError(f"{file}: cannot be read: {error.strerror or error}") from None
    if len(content) > FILE_BYTES_MAX:
        raise AutoFileError(f"{file}: has more than {FILE_BYTES_MAX} bytes")
    try:
        node = yaml.compose(content.decode(), Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        raise AutoFileError(f"{file}: is not UTF-8: {error}") from None
    except RecursionError:
        raise AutoFileError(f"{file}: is nested too deeply") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise AutoFileError(f"{file}:{line}: is not YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise AutoFileError(f"{file}:1: is not YAML: {error}") from None
    if not isinstance(node, MappingNode):
        raise AutoFileError(f"{file}:1: expected a mapping with the key `sources`, found {_shown(node)}")
    return Section(file, "", node)


def _shown(node: Node | None) -> str:
    kind: Literal["nothing", "a list", "a mapping"]
    if isinstance(node, ScalarNode):
        return repr(node.value[:_SHOWN_CHARS_MAX]) if node.value else "nothing"
    kind = "nothing" if node is None else "a list" if isinstance(node, SequenceNode) else "a mapping"
    return kind
