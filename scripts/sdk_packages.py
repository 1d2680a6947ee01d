"""Checks that the packages of the SDKs are ready to publish: what they contain, and their versions.

usage: sdk_packages.py SDK-FOLDER NPM-PACK.json, in a copy of sdk/python, into which it builds.
"""

import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import tarfile
import tomllib

sdk = pathlib.Path(sys.argv[1])


def version_in(path, pattern):
    return re.search(pattern, (sdk / path).read_text(encoding="utf-8"))[1]


(packed,) = json.loads(pathlib.Path(sys.argv[2]).read_text(encoding="utf-8"))
names = {file["path"] for file in packed["files"]}
assert {"package.json", "README.md", "LICENSE", "dist/index.js", "dist/index.d.ts", "dist/types.d.ts"} <= names, names
assert all(name.startswith("dist/") or "/" not in name for name in names), names
assert "dependencies" not in json.loads((sdk / "typescript/package.json").read_text(encoding="utf-8"))

project = tomllib.loads((sdk / "python/pyproject.toml").read_text(encoding="utf-8"))["project"]
assert project["dependencies"] == []
# The version stands in the code, too, because the User-Agent carries it.
versions = {
    packed["version"],
    project["version"],
    version_in("typescript/src/core.ts", r'VERSION = "(.+)"'),
    version_in("python/src/parley/_version.py", r'VERSION = "(.+)"'),
    version_in("go/client.go", r'Version = "(.+)"'),
}
assert len(versions) == 1, versions
assert "require" not in (sdk / "go/go.mod").read_text(encoding="utf-8")
licence = (sdk.parent / "LICENSE").read_bytes()
assert all((sdk / language / "LICENSE").read_bytes() == licence for language in ("go", "typescript", "python"))
print(f"npm package {packed['name']}: {len(names)} files, {packed['size']} bytes")

if importlib.util.find_spec("setuptools") is None:
    print("setuptools is not here: the Python package was not built")
    sys.exit()
build = [sys.executable, "-W", "ignore", "-c", "import setuptools; setuptools.setup()", "--quiet", "sdist", "--dist-dir", "built"]
subprocess.run(build, check=True)
(archive,) = pathlib.Path("built").iterdir()
with tarfile.open(archive) as built:
    names = {name.split("/", 1)[1] for name in built.getnames() if "/" in name}
assert {"pyproject.toml", "README.md", "LICENSE", "src/parley/__init__.py", "src/parley/types.py", "src/parley/py.typed"} <= names, names
print(f"Python package {archive.name}: {len(names)} files, {archive.stat().st_size} bytes")
