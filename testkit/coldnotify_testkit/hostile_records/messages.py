"""Hostile protobuf messages: fields of any kind, with values that their sender would not give them."""

from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from coldnotify_testkit.hostile_records.values import Values


class HostileMessages:
    """Gives messages hostile fields, in place."""

    def __init__(self, random: Random, values: Values) -> None:
        self._random = random
        self._values = values

    def fill(self, message: Message, share: float, depth: int = 0) -> None:
        """Give this share of its fields hostile values."""
        for field in fields_of(message.DESCRIPTOR):
            if self._random.random() < share:
                self._set(message, field, depth)

    def bend(self, message: Message) -> None:
        """Give one field a hostile value, or take it away."""
        field = self._random.choice(fields_of(message.DESCRIPTOR))
        if self._random.random() < 0.2:
            message.ClearField(field.name)
        else:
            self._set(message, field, 0)

    def _set(self, message: Message, field: FieldDescriptor, depth: int) -> None:
        draw = self._random
        if field.message_type is not None:
            if depth > 3:
                return
            inner = getattr(message, field.name)
            if not field.is_repeated:
                inner.SetInParent()
                self.fill(inner, 0.7, depth + 1)
                return
            for _ in range(draw.choice((0, 1, 2, 65))):
                self.fill(inner.add(), 0.7, depth + 1)
            return
        values = [self._scalar(field) for _ in range(draw.choice((0, 1, 2, 64, 65)) if field.is_repeated else 1)]
        if field.is_repeated:
            getattr(message, field.name).extend(values)
        else:
            setattr(message, field.name, values[0])

    def _scalar(self, field: FieldDescriptor) -> Any:
        draw = self._random
        match field.cpp_type:
            case FieldDescriptor.CPPTYPE_BOOL:
                return draw.random() < 0.5
            case FieldDescriptor.CPPTYPE_ENUM:
                return draw.choice((0, 1, 2, 3, 4, 5, 77))
            case FieldDescriptor.CPPTYPE_UINT32:
                return self._values.number(32)
            case FieldDescriptor.CPPTYPE_UINT64:
                return self._values.number(64)
            case _ if field.type == FieldDescriptor.TYPE_BYTES:
                return draw.choice((b"", b"\0", b"{", b'{"a": 1}', b"\xff" * 7, b"x" * 5000))
            case _:
                return self._values.text().encode(errors="replace").decode()


def fields_of(descriptor: Any) -> list[FieldDescriptor]:
    """Returns the fields of a message, or of a oneof in it."""
    return list(descriptor.fields)
