"""README.md of an exported folder: what each file is, and the commands that build with it."""

from __future__ import annotations

from collections.abc import Collection
from string import Template

from autosched.codegen.c_program import c_name, prototype
from autosched.codegen.signature import Signature
from autosched.exporting.interface import Interface
from autosched.exporting.python import described, package_name

_README = Template("""\
# $name

`$described`

Compiled by autosched $version for `$target`. Schedule: $origin.
Nothing here needs autosched$python.

| file | what it is |
|---|---|
$files

## From C

```c
$prototype;
```

$contract

```sh
$build
./main$arguments
```

`main.c` makes up inputs. `./main$arguments in.bin out.bin` reads them from files of raw bytes, and compares the outputs
with files.
$notes
## From Python

```sh
$example
```
$package""")
_WHAT = {
    "main.c": "an example: calls the function, times it, compares with files",
    "Makefile": "`make` builds the example, `make library` the library",
    "example.py": "an example that calls the library through ctypes",
    "python/": "a Python package: `pip install ./python`",
    "{name}.h": "the declaration of the function",
    "{name}.o": "machine code",
    "lib{name}.so": "the shared library",
    "{name}.c": "source: C, whose first line says which",
    "{name}.cl": "kernels: OpenCL C 1.2",
    "weights.bin": "the weights",
    "weights.c": "the weights as an array of C",
}


def readme(f: Interface, files: Collection[str], version: str) -> str:
    """README.md, of a folder with these files."""
    name = c_name(f.name)
    has_library, has_package = f"lib{name}.so" in files, any(x.startswith("python/") for x in files)
    shown = [*(x for x in files if "/" not in x), *(["python/"] if has_package else [])]
    told = {key.format(name=name): text.format(name=name) for key, text in _WHAT.items()}
    rows = [f"| `{x}` | {told.get(x, 'machine code' if x.endswith('.o') else 'source')} |" for x in shown]
    sizes = "".join(f" {s}={n}" for s, n in f.usual.items())
    made = "" if has_library else "make library\n"
    return _README.substitute(
        name=name,
        described=described(f),
        version=version,
        target=f.target,
        origin=f.origin or "given by hand",
        python=", and only `example.py` and `python/` need Python and NumPy" if has_package else "",
        files="\n".join(rows),
        prototype=_prototype(f),
        contract=_contract(f),
        build="\n".join(_build_lines(f, files)),
        arguments=sizes,
        notes=_notes(f),
        example=f"{made}python3 example.py",
        package=_package(f) if has_package else "",
    )


def _prototype(f: Interface) -> str:
    name = c_name(f.name)
    if not f.is_device:
        return prototype(f.signature)
    plain = prototype(Signature(f.name, f.signature.params, f.signature.sizes))
    call = plain.replace(f"{name}(", f"{name}(struct {name} *device, ", 1)
    opened = f"struct {name} *{name}_open(const char *source, const uint8_t *weights)"
    return f"{opened};\n{call};\nvoid {name}_close(struct {name} *device)"


def _contract(f: Interface) -> str:
    most = max([1, *(p.alignment for p in f.signature.params)])
    lines = [
        "Arrays lie in memory row by row, without gaps, at addresses that are multiples of "
        + ("their element's size." if most == 1 else f"{most}."),
        "Outputs share no memory with other arrays. Sizes are not checked: they are those of the arrays.",
    ]
    lines += [f"Needed: `{r}`: {r.reason}." for r in f.signature.requires]
    fails = (
        "the number of an error of OpenCL" if f.is_device else "-1 where there is no memory for intermediate results"
    )
    lines.append(f"It returns 0, or {fails}.")
    if not f.is_device:
        lines.append("Several threads may call it at once.")
    return "\n".join(lines)


def _build_lines(f: Interface, files: Collection[str]) -> list[str]:
    name = c_name(f.name)
    cc = f.compiler.removeprefix("CC = ").strip() or "cc"
    openmp, libraries = ["-fopenmp"] if f.parallel else [], list(f.libraries)
    main = [cc, "-std=c99", "-O2"]
    if f.target.kind == "llvm":
        objects = [x for x in files if x.endswith(".o")]
        lines = [" ".join([*main, "main.c", *objects, *openmp, *libraries, "-o", "main"])]
        if f"lib{name}.so" in files:
            shared = [*main, "main.c", "-L.", f"-l{name}", "-lm", "-Wl,-rpath,'$ORIGIN'", "-o", "main"]
            lines = [f"{' '.join(shared)}    # with the library", f"{lines[0]}    # or with the object files"]
        return lines
    sources = ["main.c", *(x for x in files if x.endswith(".c") and x != "main.c" and "/" not in x)]
    libraries += ["-lm"] if "-lm" not in libraries else []
    return [" ".join([cc, *f.flags, *openmp, *sources, *libraries, "-o", "main"])]


def _notes(f: Interface) -> str:
    notes = []
    if f.parallel:
        notes.append("Its loops run on OpenMP's threads: `OMP_NUM_THREADS` says on how many.")
        if f.target.kind == "c":
            notes.append("Without `-fopenmp` they run on one.")
        else:
            notes.append("Object files need `-fopenmp` when they are linked; the library brings its own link to it.")
    if f.target.kind == "llvm":
        notes.append(f"Machine code of {_cpu(f)}: another CPU may stop at an instruction that it lacks.")
    if f.is_device:
        notes.append("`AUTOSCHED_DEVICE=1` takes the second device of the system.")
    return "\n" + "\n".join(notes) + "\n" if notes else ""


def _cpu(f: Interface) -> str:
    if f.target.mcpu not in ("", "native"):
        return f"the CPU `{f.target.mcpu}`"
    return f"any CPU of `{f.target.mtriple}`" if f.is_foreign else "the CPU that built it"


def _package(f: Interface) -> str:
    package = package_name(f.name)
    return f"""
or, as a package that needs NumPy alone:

```sh
pip wheel --no-deps ./python    # without a network: --no-build-isolation, and setuptools 70.1 or later
pip install ./{package}-*.whl
python3 -c "import {package}; help({package})"
```
"""
