#!/usr/bin/env python3
"""Unpack Debian 12's HIP runtime and HIP headers into .cache/debian_hip; nothing is installed.

Tests load the runtime, which finds no GPU, and compile the kernels against the headers. Where Debian's archive can't be
reached, the reason goes to .cache/debian_hip/UNAVAILABLE, and the tests print it instead of running.
"""

import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

OUT = Path(".cache/debian_hip")
# The second keeps every version for good.
ARCHIVES = ("https://deb.debian.org/debian", "https://snapshot.debian.org/archive/debian/20260601T000000Z")
# Path in the archive and SHA-256. libamdhip64 and what it needs beyond libc and libstdc++; its headers; and the headers that
# clang puts before every HIP source, which the ziglang wheel lacks.
PACKAGES = {
    "pool/main/r/rocm-hipamd/libamdhip64-5_5.2.3-8_amd64.deb": "e89c3757b6ca16b7a03374a0a42402ab19e9e7000251d47379838be965330ebd",
    "pool/main/r/rocr-runtime/libhsa-runtime64-1_5.2.3-3_amd64.deb": "9b633756945b16124376b274dbc681e4022c2b9704b8bdfa04637b09c7bfad93",
    "pool/main/r/roct-thunk-interface/libhsakmt1_5.2.3+dfsg-1_amd64.deb": "8e57a5762878b520d1e81a424b63fb592ce78167a9f7259e8ae91178a02e2e58",
    "pool/main/n/numactl/libnuma1_2.0.16-1_amd64.deb": "639e1ab6bd66ead40db8a22c332d7199679fa22db261cac34444eb8eb4c17dda",
    "pool/main/e/elfutils/libelf1_0.188-2.1_amd64.deb": "619add379c606b3ac6c1a175853b918e6939598a83d8ebadf3bdfd50d10b3c8c",
    "pool/main/libd/libdrm/libdrm-amdgpu1_2.4.114-1+b1_amd64.deb": "b75a71e96f1faac0f131ac657e09efcbe8968eef62cc34b8abfcff2ff9f0cccd",
    "pool/main/libd/libdrm/libdrm2_2.4.114-1+b1_amd64.deb": "be18fb670797ba32da9628cf3e8acd83160d8db8c8dd842501dd8e401c3b5371",
    "pool/main/z/zlib/zlib1g_1.2.13.dfsg-1_amd64.deb": "d7dd1d1411fedf27f5e27650a6eff20ef294077b568f4c8c5e51466dc7c08ce4",
    "pool/main/r/rocm-hipamd/libamdhip64-dev_5.2.3-8_amd64.deb": "1f87b72e5aa86025c6cb96312c75ee7f549c42475f4bc51049ab7b67cc4e762e",
    "pool/main/l/llvm-toolchain-19/libclang-common-19-dev_19.1.7-3~deb12u1_amd64.deb": "811c2d398ad772204ec05ffde485cbbc4c210abc5dcf0068ff9ca3e647591ce7",
}


class UnavailableError(Exception):
    """No source has a package; says what each of them answered."""


def offers(path: str) -> Iterator[tuple[str, bytes | str]]:
    """Yield each source of a package with the package or the reason why not: Debian's archive, then this machine's apt."""
    for archive in ARCHIVES:
        url = f"{archive}/{urllib.parse.quote(path)}"
        try:
            with urllib.request.urlopen(url, timeout=60) as response:
                yield url, bytes(response.read())
        except OSError as error:
            yield url, str(error)
    if shutil.which("apt-get"):
        # The archive's paths leave the epoch of a version out: whatever apt has is taken, and its hash decides.
        command = ["apt-get", "download", path.rsplit("/", 1)[1].split("_")[0] + ":amd64"]
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            packages = list(Path(folder).glob("*.deb"))
            yield " ".join(command), packages[0].read_bytes() if packages else done.stderr.strip()


def fetch(path: str, digest: str) -> bytes:
    """Return the package that has the digest."""
    answers = []
    for source, offer in offers(path):
        if isinstance(offer, bytes):
            found = hashlib.sha256(offer).hexdigest()
            if found == digest:
                return offer
            offer = f"SHA-256 is {found}; expected {digest}"
        answers.append(f"{source}: {offer}")
    raise UnavailableError("; ".join(answers))


def unpack(package: bytes, to: Path) -> None:
    """Unpack the files of a .deb, an `ar` archive whose member data.tar.* has them."""
    if not package.startswith(b"!<arch>\n"):
        raise ValueError("not a .deb")
    at = 8
    while at < len(package):
        name, size = package[at : at + 16].decode().strip(), int(package[at + 48 : at + 58])
        if name.startswith("data.tar"):
            with tarfile.open(fileobj=io.BytesIO(package[at + 60 : at + 60 + size])) as files:
                files.extractall(to, filter="tar")
            return
        at += 60 + size + size % 2
    raise ValueError("the .deb has no data.tar")


def main() -> None:
    """Do what the module says, unless it is done."""
    pinned = "\n".join(f"{digest} {path}" for path, digest in PACKAGES.items())
    ready = OUT / "READY"
    if ready.is_file() and ready.read_text() == pinned:
        return
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    print(f"setup: unpacking Debian's HIP runtime and headers (7 MB) into {OUT}", flush=True)
    try:
        for path, digest in PACKAGES.items():
            unpack(fetch(path, digest), OUT)
    except UnavailableError as error:
        (OUT / "UNAVAILABLE").write_text(f"{error}\n")
        print(f"setup: {error}. The tests that need it will say that they were not run.", file=sys.stderr)
        return
    ready.write_text(pinned)


if __name__ == "__main__":
    main()
