"""The generated code is what `make proto` makes of the .proto files now."""

from pathlib import Path

from grpc_tools import protoc

SCHEMAS = Path(__file__).parents[1]


def test_the_generated_code_is_up_to_date(tmp_path: Path) -> None:
    protos = [str(SCHEMAS / name) for name in ("wire.proto", "internal.proto")]
    where = [f"-Icoldnotify_schemas={SCHEMAS}", f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"]
    assert protoc.main(["protoc", *where, *protos]) == 0
    made = sorted((tmp_path / "coldnotify_schemas").iterdir())
    assert [path.name for path in made] == [
        "internal_pb2.py",
        "internal_pb2.pyi",
        "wire_pb2.py",
        "wire_pb2.pyi",
    ]
    for path in made:
        assert path.read_text() == (SCHEMAS / "coldnotify_schemas" / path.name).read_text(), "run make proto"
