"""Targets: text, dicts and JSON; what they say of themselves; messages for what they do not take."""

import json

import numpy as np
import pytest

import autosched
from autosched import Target, te
from autosched.codegen.llvm import MACHINES
from autosched.errors import BuildError, TargetError
from autosched.target import KINDS


def add_one():
    a = te.placeholder((16,), name="A")
    b = te.compute((16,), lambda i: a[i] + 1, name="B")
    return autosched.create_schedule([a, b])


def test_text_dict_and_json_are_three_spellings_of_one_target():
    text = Target("llvm -mcpu=znver3 -mattr=+avx2,-fma -num-cores=4")
    as_dict = {"kind": "llvm", "mcpu": "znver3", "mattr": ["+avx2", "-fma"], "num-cores": 4}
    assert text == Target(as_dict) == Target(json.dumps(as_dict)) == Target(text)
    assert hash(text) == hash(Target(as_dict))
    assert text == Target("llvm --mcpu znver3 --mattr +avx2,-fma --num_cores 4")
    assert Target(text.export()) == text == Target(str(text))
    assert text != Target("llvm -mcpu=znver3") != Target("c -mcpu=znver3")


def test_attributes_say_what_the_options_said():
    t = Target("llvm -mcpu=core-avx2 -mattr=+fma,-avx512f -num-cores=3 -keys=fast -device=arm_cpu -libs=mkl")
    assert (t.kind, t.kind.name, t.mcpu, t.mattr) == ("llvm", "llvm", "core-avx2", ["+fma", "-avx512f"])
    assert t.keys == ("fast", "arm_cpu", "cpu")
    assert t.model == "unknown" and t.device_name == "arm_cpu"
    assert t.num_threads == 3
    assert t.attrs["num-cores"] == 3 and t.attrs["mattr"] == ["+fma", "-avx512f"]
    assert "mcpu" in t.kind.options


def test_limits_of_the_user_lower_those_of_the_device():
    t = Target("opencl -max_threads_per_block=64 -max_shared_memory_per_block=4096 -thread_warp_size=8")
    assert (t.max_threads_per_block, t.max_shared_memory_per_block, t.thread_warp_size) == (64, 4096, 8)
    on_device = t.with_limits(max_threads_per_block=1024, shared_memory_bytes=2048, work_group_multiple=32)
    assert on_device.max_threads_per_block == 64
    assert on_device.max_shared_memory_per_block == 2048
    assert on_device.thread_warp_size == 8
    plain = Target("opencl")
    assert (plain.max_threads_per_block, plain.max_shared_memory_per_block) == (256, 16384)
    assert plain.with_limits(max_threads_per_block=512).max_threads_per_block == 512


def test_strict_is_a_flag_of_every_kind():
    for kind in KINDS:
        strict = Target(f"{kind} -strict")
        assert strict.strict and strict.attrs["strict"] is True and str(strict) == f"{kind} -strict"
        spellings = (f"{kind} --strict", f"{kind} -strict=1", f"{kind} -strict=True", {"kind": kind, "strict": True})
        assert (
            all(Target(s) == strict for s in spellings)
            and Target(kind, strict=True) == strict == Target(kind).as_strict()
        )
        assert Target(str(strict)) == Target(strict.export()) == strict != Target(kind)
        for off in (f"{kind} -strict=off", f"{kind} -strict=0", {"kind": kind, "strict": False}):
            assert Target(off) == Target(kind) and not Target(off).strict
        assert Target(strict, strict=False) == Target(kind)
    both = Target("llvm -strict -mcpu=znver3")  # a flag takes no word after it
    assert both.strict and both.mcpu == "znver3"


def test_host_travels_with_the_target():
    t = Target("opencl", host="llvm -mcpu=znver3")
    assert t.host is not None and t.host.mcpu == "znver3"
    assert Target(t.export()) == t == Target(target="opencl", host=Target("llvm -mcpu=znver3"))
    assert t != Target("opencl")


def test_with_gives_the_target_to_what_is_called_inside():
    assert Target.current() is None
    with pytest.raises(TargetError, match="no target is in force"):
        Target.current(allow_none=False)
    with Target("llvm -threads=1") as outer:
        assert Target.current() is outer
        with Target("opencl"):
            assert Target.current() == Target("opencl")
        assert autosched.build(add_one()).target == outer
    assert Target.current() is None


def test_what_is_not_a_target_is_refused_with_what_is_legal():
    for wrong, why in [
        ("llvmm", "did you mean 'llvm'"),
        ("", "no such target"),
        ("llvm -mcpuu=x", "'-mcpuu=x' is not an option of llvm"),
        ("llvm mcpu=x", "'mcpu=x' is not an option"),
        ("llvm -num-cores=0", "num-cores=0 is not a positive number"),
        ("llvm -mcpu", "-mcpu has no value"),
        ("llvm -strict=perhaps", "strict=perhaps is neither on nor off"),
        ("llvm 'x", "cannot be read"),
        ("{", "is not JSON"),
        ({"kind": "opencl", "mcpu": "x"}, "'-mcpu=x' is not an option of opencl"),
        ({}, "no such target"),
        (3, "is no target"),
    ]:
        with pytest.raises(TargetError) as caught:
            Target(wrong)
        assert why in str(caught.value), str(caught.value)
        assert caught.value.legal
    with pytest.raises(TargetError, match="it has no kind"):
        Target(kind="")


def test_every_kind_lists_its_options():
    assert set(KINDS) >= {"llvm", "c", "opencl"}
    for kind in KINDS:
        assert Target(kind).keys[-1:] == KINDS[kind].keys[-1:]
        for option in Target(kind).kind.options:
            form, values = KINDS[kind].options[option].form, KINDS[kind].options[option].values
            value = values[0] if values else {"number": "2", "flag": "1"}.get(form, "x")
            assert Target(f"{kind} -{option}={value}").options == {option: value}


def test_an_option_may_have_few_values():
    with pytest.raises(TargetError, match=r"there is no std=c11\n  std: gnu99 or c99"):
        Target("c -std=c11")


def test_code_for_another_machine_can_be_read_but_not_called():
    module = autosched.build(add_one(), "llvm -mtriple=aarch64-linux-gnu")
    assert "ret" in module.assembly and module.artifact.machine == "aarch64"
    with pytest.raises(BuildError, match="the code is for aarch64 and this machine is"):
        module(np.zeros(16, np.float32))
    for machine in ("nonsense", "armv7l", "wasm32", "bpf"):  # LLVM knows the last three, and ends the process
        with pytest.raises(TargetError, match=f"no machine code is made for {machine}") as caught:
            autosched.build(add_one(), f"llvm -mtriple={machine}-linux-gnu")
        assert "C sources" in caught.value.legal


#: what the header of an object file calls them (e_machine of ELF)
OF_ELF = {"x86_64": 62, "aarch64": 183, "arm64": 183, "riscv64": 243, "powerpc64le": 21, "ppc64le": 21, "s390x": 22}


@pytest.mark.parametrize("machine", MACHINES)
def test_machines_that_are_offered_have_code(machine):
    (code,) = autosched.build(add_one(), f"llvm -mtriple={machine}-linux-gnu").artifact.objects
    order = "big" if machine == "s390x" else "little"
    assert code[:4] == b"\x7fELF" and int.from_bytes(code[18:20], order) == OF_ELF.get(machine, 258)


@pytest.mark.parametrize("machine", ["s390x", "powerpc64le", "riscv64"])
def test_the_int_of_c_fills_its_register_where_machines_want_it(machine):
    """Without it the number of threads has anything in its upper half."""
    s = add_one()
    s["B"].parallel("i")
    source = autosched.build(s, f"llvm -mtriple={machine}-linux-gnu").get_source()
    assert "declare void @GOMP_parallel(ptr, ptr, i32 signext, i32 signext)" in source
    assert "call signext i32 @omp_get_thread_num()" in source and "define i32 " not in source
    calls = [line for line in source.splitlines() if "@GOMP_parallel(" in line and "call" in line]
    assert calls and all(line.count("i32 signext") == 2 for line in calls)
