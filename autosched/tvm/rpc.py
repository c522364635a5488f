"""`tvm.rpc`: a session with this machine. Others are not reached: `export_library` makes a library for them."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from autosched.errors import DeviceError, UsageError
from autosched.runtime.device import Device
from autosched.runtime.registry import get_global_func
from autosched.tvm import nd
from autosched.tvm._missing import missing
from autosched.tvm.runtime import load_module

_LEGAL = "rpc.LocalSession(); module.export_library(path, fcompile=..) for a program that is copied to the device"


class LocalSession:
    """A folder for files, modules loaded from there, and the devices of this machine.

    The folder goes with the session. Raises UsageError for names that lead out of it and files that are not there.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="autosched-rpc-")

    def _path(self, name: str | os.PathLike[str], there: bool = True) -> Path:
        root = Path(self._folder.name).resolve()
        path = (root / name).resolve()
        if root not in path.parents:
            raise UsageError("it leads out of the session's folder", asked=f"rpc file {name}", legal="a relative path")
        if there and not path.exists():
            names = sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())
            legal = f"files: {', '.join(names) or 'none yet: remote.upload(path)'}"
            raise UsageError("no such file was uploaded", asked=f"rpc file {name}", legal=legal)
        return path

    def upload(self, data: bytes | bytearray | str | os.PathLike[str], target: str | None = None) -> None:
        """Copy a file, or bytes, into the folder; `target` is its name there, by default its own."""
        if isinstance(data, bytes | bytearray):
            if target is None:
                raise UsageError("bytes have no name", asked="upload(bytes)", legal='upload(data, target="name")')
            to = self._path(target, there=False)
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(data)
            return
        to = self._path(target or Path(data).name, there=False)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(data, to)
        beside = Path(f"{os.fspath(data)}.autosched")  # what a call of an object file needs to know
        if beside.is_file():
            shutil.copyfile(beside, f"{to}.autosched")

    def download(self, path: str) -> bytearray:
        """The bytes of a file of the folder."""
        return bytearray(self._path(path).read_bytes())

    def remove(self, path: str) -> None:
        """Delete a file of the folder; one that is not there is no error."""
        self._path(path, there=False).unlink(missing_ok=True)

    def list_files(self, path: str = "") -> list[str]:
        """Names of the files in the folder, or in a folder below it."""
        root = self._path(path) if path else Path(self._folder.name)
        return sorted(p.name for p in root.iterdir())

    listdir = list_files

    def load_module(self, path: str) -> Any:
        """The module of an uploaded library."""
        return load_module(self._path(path))

    def get_function(self, name: str) -> Any:
        """A function registered with `tvm.register_func`."""
        return get_global_func(name)

    def system_lib(self) -> Any:
        raise UsageError("code is in libraries", asked="system_lib()", legal="load_module(path)")

    def device(self, dev_type: str, dev_id: int = 0) -> Device:
        """A device of this machine, by the kind of its target."""
        return nd.device(dev_type, dev_id)

    def cpu(self, dev_id: int = 0) -> Device:
        return self.device("cpu", dev_id)

    def cuda(self, dev_id: int = 0) -> Device:
        return self.device("cuda", dev_id)

    def cl(self, dev_id: int = 0) -> Device:
        return self.device("opencl", dev_id)


RPCSession = LocalSession


def _elsewhere(asked: str) -> DeviceError:
    return DeviceError("programs run on this machine: there is no remote execution", asked=asked, legal=_LEGAL)


def connect(url: str, port: int, key: str = "", session_timeout: int = 0, **options: Any) -> LocalSession:
    """Raises DeviceError: no other machine is reached."""
    raise _elsewhere(f"rpc.connect({url!r}, {port})")


def connect_tracker(url: str, port: int) -> Any:
    """Raises DeviceError: no other machine is reached."""
    raise _elsewhere(f"rpc.connect_tracker({url!r}, {port})")


def with_minrpc(compile_func: Any, server: str = "posix_popen_server", runtime: str = "libtvm") -> Any:
    """Raises DeviceError: no server is linked."""
    raise _elsewhere("rpc.with_minrpc(..)")


_ELSEWHERE = "TrackerSession Server PopenSession server tracker".split()
__getattr__ = missing("rpc", globals(), dict.fromkeys(_ELSEWHERE, "rpc.LocalSession()"))
