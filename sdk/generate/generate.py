"""Writes the types and methods of the SDKs that our own scripts make.

usage: python3 sdk/generate/generate.py CONTRACT.json SDK-FOLDER
"""

import pathlib
import sys

import contract
import write_go
import write_operations
import write_python
import write_typescript


def main(source, folder):
    described = contract.load(source)
    for path, text in {
        "testdata/operations.json": write_operations.table(described),
        "go/types_generated.go": write_go.types(described),
        "go/operations_generated.go": write_go.methods(described),
        "typescript/src/operations.ts": write_typescript.methods(described),
        "python/src/parley/types.py": write_python.types(described),
        "python/src/parley/_operations.py": write_python.methods(described),
    }.items():
        target = pathlib.Path(folder, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
