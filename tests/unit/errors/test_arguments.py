"""Wrong arguments: what is told is also a ValueError or a TypeError, and never what Python happens to stumble over."""

from __future__ import annotations

import dataclasses
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import autosched
from autosched import build, create_schedule, device, lower, nd, records, te, tvm
from autosched.errors import (
    ArgumentError,
    AutoschedError,
    FileError,
    RecordError,
    ScheduleError,
    UsageError,
    UsageTypeError,
)
from autosched.measure.protocol import MeasureOptions
from autosched.runtime.function import TimeEvaluator
from autosched.runtime.module import Module
from autosched.space.workload import Workload, template, workload
from autosched.tuning.arguments import check_writable

A = te.placeholder((4, 4), name="A")
B = te.compute((4, 4), lambda i, j: A[i, j] + 1, name="B")
WHOLE = te.placeholder((4,), "int32", name="I")
K = te.reduce_axis((0, 4), "k")
NAN = float("nan")


@workload
def doubled(n: int = 4):
    x = te.placeholder((n,), name="x")
    return x, te.compute((n,), lambda i: x[i] * 2, name="y")


def sized() -> Workload:
    x = te.placeholder((te.var("n"),), name="x")
    return Workload("sized", (x, te.compute(x.shape, lambda i: x[i] * 2, name="y")))


def s() -> autosched.Schedule:
    return create_schedule(B)


WRONG_TYPE: dict[str, Callable[[], object]] = {
    "placeholder(name=5)": lambda: te.placeholder((4,), name=5),  # type: ignore[arg-type]
    "compute(name=None)": lambda: te.compute((4,), lambda i: A[i, i], name=None),  # type: ignore[arg-type]
    "compute(attrs=5)": lambda: te.compute((4,), lambda i: A[i, i], attrs=5),  # type: ignore[arg-type]
    "reduce_axis(name=5)": lambda: te.reduce_axis((0, 4), name=5),  # type: ignore[arg-type]
    "var(5)": lambda: te.var(5),  # type: ignore[arg-type]
    "decl_buffer(name=5)": lambda: te.decl_buffer((4,), name=5),  # type: ignore[arg-type]
    "decl_buffer(alignment)": lambda: te.decl_buffer((4,), data_alignment="x"),  # type: ignore[arg-type]
    "a float index": lambda: te.compute((4,), lambda i: A[i, 0.5]),
    "int of a size": lambda: int(te.var("n")),
    "index of a float": lambda: range(te.const(1.5)),  # type: ignore[arg-type]
    "elements of an element": lambda: list(A[0, 0]),
    "elements of a tensor": lambda: list(A),
    "None beside a tensor": lambda: A[0, 0] + None,
    "extern without a function": lambda: te.extern((4,), [A], None),  # type: ignore[arg-type]
    "extern of a tensor": lambda: te.extern((4,), A, lambda i, o: 5),  # type: ignore[arg-type]
    "tag=5": lambda: te.compute((4,), lambda i: A[i, i], tag=5),  # type: ignore[arg-type]
    "comm_reducer(name=5)": lambda: te.comm_reducer(lambda x, y: x, lambda t: te.const(0, t), name=5),  # type: ignore[arg-type]
    "scan(inputs=5)": lambda: te.scan(B, B, A, inputs=5),  # type: ignore[arg-type]
    "gradient by None": lambda: te.gradient(B, None),  # type: ignore[arg-type]
    "gradient with a head of 5": lambda: te.gradient(B, [A], 5),  # type: ignore[arg-type]
    "gradient of 5": lambda: te.gradient(5, [A]),  # type: ignore[arg-type]
    "gradient by 5": lambda: te.gradient(B, [5]),  # type: ignore[list-item]
    "reference(None)": lambda: te.reference(None, []),  # type: ignore[arg-type]
    "reference of 5": lambda: te.reference([5], []),  # type: ignore[list-item]
    "reference inputs": lambda: te.reference([A, B], None),  # type: ignore[arg-type]
    "reference dtype": lambda: te.reference([A, B], [np.zeros((4, 4), "int8")]),
    "define_knob(None)": lambda: s().define_knob("k", None),  # type: ignore[arg-type]
    "define_knob([])": lambda: s().define_knob([], [1]),  # type: ignore[arg-type]
    "choose(5)": lambda: s().choose(5, [1]),  # type: ignore[arg-type]
    "constrain(5)": lambda: s().constrain(5),  # type: ignore[arg-type]
    "check(args=5)": lambda: s().check(args=5),  # type: ignore[arg-type]
    "check(knobs=5)": lambda: s().check(knobs=5),  # type: ignore[arg-type]
    "lower(args=5)": lambda: lower(s(), 5),  # type: ignore[arg-type]
    "lower(binds=5)": lambda: lower(s(), [A, B], binds=5),  # type: ignore[arg-type]
    "lower(name=5)": lambda: lower(s(), [A, B], name=5),  # type: ignore[arg-type]
    "build(5)": lambda: build(5),  # type: ignore[arg-type]
    "build(name=5)": lambda: build(s(), "llvm", args=[A, B], name=5),  # type: ignore[arg-type]
    "build(args=5)": lambda: build(s(), "llvm", args=5),  # type: ignore[arg-type]
    "build(sizes=5)": lambda: build(doubled, "llvm", sizes=5),  # type: ignore[arg-type]
    "build(records=5)": lambda: build(doubled, "llvm", records=5),  # type: ignore[arg-type]
    "build(bounds_check=1)": lambda: build(s(), "llvm", args=[A, B], bounds_check=1),  # type: ignore[arg-type]
    "plan(None)": lambda: autosched.plan(None),  # type: ignore[arg-type]
    "search_space(5)": lambda: autosched.search_space(5),  # type: ignore[arg-type]
    "search_space(rules=5)": lambda: autosched.search_space(doubled, rules=5),  # type: ignore[arg-type]
    "search_space(space=[])": lambda: autosched.search_space(doubled, space=[]),  # type: ignore[arg-type]
    "plan(name=5)": lambda: autosched.plan(s(), name=5),  # type: ignore[arg-type]
    "Target(strict=5)": lambda: autosched.Target("llvm", strict=5),  # type: ignore[arg-type]
    "sanitize(None)": lambda: autosched.sanitize(None),  # type: ignore[arg-type]
    "load_module(5)": lambda: autosched.load_module(5),  # type: ignore[arg-type]
    "tune(None)": lambda: autosched.tune(None),  # type: ignore[arg-type]
    "tune(trials='5')": lambda: autosched.tune(doubled, trials="5"),  # type: ignore[arg-type]
    "tune(trials=1.5)": lambda: autosched.tune(doubled, trials=1.5),  # type: ignore[arg-type]
    "tune(trials=True)": lambda: autosched.tune(doubled, trials=True),
    "tune(budget_s='5')": lambda: autosched.tune(doubled, budget_s="5"),  # type: ignore[arg-type]
    "tune(budget_s=True)": lambda: autosched.tune(doubled, budget_s=True),
    "tune(patience='x')": lambda: autosched.tune(doubled, patience="x"),  # type: ignore[arg-type]
    "tune(seed='x')": lambda: autosched.tune(doubled, seed="x"),  # type: ignore[arg-type]
    "tune(seed=True)": lambda: autosched.tune(doubled, seed=True),
    "tune(rules=5)": lambda: autosched.tune(doubled, rules=5),  # type: ignore[arg-type]
    "tune(inputs=5)": lambda: autosched.tune(doubled, inputs=5),  # type: ignore[arg-type]
    "tune(measure=5)": lambda: autosched.tune(doubled, measure=5),  # type: ignore[arg-type]
    "tune(sizes=5)": lambda: autosched.tune(doubled, sizes=5),  # type: ignore[arg-type]
    "tune(strategy_options={5: 1})": lambda: autosched.tune(doubled, trials=1, strategy_options={5: 1}),  # type: ignore[dict-item]
    "tune(space=[])": lambda: autosched.tune(doubled, trials=1, space=[], progress=False),  # type: ignore[arg-type]
    "tune(seed=array)": lambda: autosched.tune(doubled, trials=1, seed=np.zeros(3)),  # type: ignore[arg-type]
    "tune_sizes(5)": lambda: autosched.tune_sizes(sized(), 5),  # type: ignore[arg-type]
    "tune_sizes([5])": lambda: autosched.tune_sizes(sized(), [5]),  # type: ignore[list-item]
    "tune_sizes(kernels='x')": lambda: autosched.tune_sizes(sized(), [{"n": 4}], kernels="x"),  # type: ignore[arg-type]
    "tune_sizes(tolerance='x')": lambda: autosched.tune_sizes(sized(), [{"n": 4}], tolerance="x"),  # type: ignore[arg-type]
    "tune_sizes(weights=5)": lambda: autosched.tune_sizes(sized(), [{"n": 4}], weights=5),  # type: ignore[arg-type]
    "tune_sizes(round_trials=None)": lambda: autosched.tune_sizes(sized(), [{"n": 4}], round_trials=None),  # type: ignore[arg-type]
    "tune_sizes(measure=5)": lambda: autosched.tune_sizes(sized(), [{"n": 4}], measure=5),  # type: ignore[arg-type]
    "tune_sizes(strategy_options=5)": lambda: autosched.tune_sizes(sized(), [{"n": 4}], strategy_options=5),  # type: ignore[arg-type]
    "tune_sizes(watch=5)": lambda: autosched.tune_sizes(sized(), [{"n": 4}], watch=5),  # type: ignore[arg-type]
    "tune_tasks(measure=5)": lambda: autosched.tune_tasks([doubled], trials=1, measure=5),  # type: ignore[arg-type]
    "tune_tasks(rules=5)": lambda: autosched.tune_tasks([doubled], trials=1, rules=5),  # type: ignore[arg-type]
    "tune_tasks(watch=5)": lambda: autosched.tune_tasks([doubled], trials=1, watch=5),  # type: ignore[arg-type]
    "tune_tasks(inputs=[5])": lambda: autosched.tune_tasks([doubled], trials=1, inputs=[5]),  # type: ignore[list-item]
    "tune_tasks(strategy_options=5)": lambda: autosched.tune_tasks([doubled], trials=1, strategy_options=5),  # type: ignore[arg-type]
    "tune_tasks(5)": lambda: autosched.tune_tasks(5),  # type: ignore[arg-type]
    "tune_tasks([5])": lambda: autosched.tune_tasks([5]),  # type: ignore[list-item]
    "ask_and_tell(None)": lambda: autosched.ask_and_tell(None),  # type: ignore[arg-type]
    "ask_and_tell(rules=5)": lambda: autosched.ask_and_tell(doubled, rules=5),  # type: ignore[arg-type]
    "ask_and_tell(strategy_options=5)": lambda: autosched.ask_and_tell(doubled, strategy_options=5),  # type: ignore[arg-type]
    "ask_and_tell(warm_start=[5])": lambda: autosched.ask_and_tell(doubled, warm_start=[5]),  # type: ignore[list-item]
    "records.best(5)": lambda: records.best(5, key="k", target="llvm"),  # type: ignore[arg-type]
    "records.ranked([5])": lambda: records.ranked([5], key="k", target="llvm"),  # type: ignore[list-item]
    "records.latest(None)": lambda: records.latest(None),  # type: ignore[arg-type]
    "records.trials('x')": lambda: records.trials("x"),  # type: ignore[arg-type]
    "records.load(5)": lambda: records.load(5),  # type: ignore[arg-type]
    "records.load([5])": lambda: records.load([5]),  # type: ignore[list-item]
    "records.to_frame([5])": lambda: records.to_frame([5]),  # type: ignore[list-item]
    "records.default_path(5)": lambda: records.default_path("w", "llvm", 5),  # type: ignore[arg-type]
    "get_source([])": lambda: build(s(), "llvm", args=[A, B]).get_source([]),  # type: ignore[arg-type]
    "RecordLog(None)": lambda: records.RecordLog(None),  # type: ignore[arg-type]
    "nd.empty(None)": lambda: nd.empty(None),  # type: ignore[arg-type]
    "nd.empty((2.5,))": lambda: nd.empty((2.5,)),  # type: ignore[arg-type]
    "nd.copyto(5)": lambda: nd.array(np.zeros(2)).copyto(5),  # type: ignore[arg-type]
    "workload(5)": lambda: workload(5),  # type: ignore[arg-type]
    "template(5)": lambda: template(doubled)(5),  # type: ignore[arg-type]
    "MeasureOptions('x')": lambda: MeasureOptions(repeat="x"),  # type: ignore[arg-type]
    "MeasureOptions(1.5)": lambda: MeasureOptions(builders=1.5),  # type: ignore[arg-type]
    "MeasureOptions(True)": lambda: MeasureOptions(repeat=True),
}

WRONG_VALUE: dict[str, Callable[[], object]] = {
    "no name": lambda: te.placeholder((4,), name=""),
    "a function with a slash": lambda: lower(s(), [A, B], name="a/b"),
    "a name of two lines": lambda: te.compute((4,), lambda i: A[i, i], name="a\nb"),
    "a function outside": lambda: build(s(), "llvm", args=[A, B], name="../../evil"),
    "a function of dots": lambda: lower(s(), [A, B], name=".."),
    "2**70 as int32": lambda: te.const(2**70, "int32"),
    "2**70": lambda: te.const(2**70),
    "2**70 beside int32": lambda: WHOLE[0] + 2**70,
    "2**70 in a select": lambda: te.select(WHOLE[0] > 0, WHOLE[0], 2**70),
    "2**70 elements": lambda: te.placeholder((2**70,)),
    "300 as uint8": lambda: te.const(300, "uint8"),
    "-1 as uint8": lambda: te.const(-1, "uint8"),
    "1e30 as int64": lambda: te.const(1e30, "int64"),
    "a shape": lambda: te.reference([A, B], [np.zeros((3, 4), "float32")]),
    "budget nan": lambda: autosched.tune(doubled, budget_s=NAN),
    "budget -1": lambda: autosched.tune(doubled, budget_s=-1),
    "no patience": lambda: autosched.tune(doubled, patience=0),
    "no inputs": lambda: autosched.tune(doubled, trials=1, inputs=[], progress=False),
    "weights of nothing": lambda: autosched.tune_tasks([doubled], trials=1, weights=[]),
    "a weight of 0": lambda: autosched.tune_sizes(sized(), [{"n": 4}], weights=[0]),
    "seed -1": lambda: autosched.tune(doubled, seed=-1),
    "a seed of 64 bits": lambda: autosched.tune(doubled, seed=2**63),
    "tasks nan": lambda: autosched.tune_tasks([doubled], budget_s=NAN),
    "strange sizes": lambda: autosched.tune(doubled, sizes={"zz": 3}),
    "negative size": lambda: doubled().sample_inputs({"n": -3}),
    "a length of 2**70": lambda: nd.empty((2**70,)),
    "a name too long for a file": lambda: autosched.search_space("a" * 3000),
    "a negative length": lambda: nd.empty((-1,)),
    "timeout nan": lambda: MeasureOptions(timeout_s=NAN),
    "not a device": lambda: device("zz"),
}


@pytest.mark.parametrize("case", WRONG_TYPE)
def test_wrong_types_are_type_errors(case: str) -> None:
    with pytest.raises(AutoschedError) as caught:
        WRONG_TYPE[case]()
    assert isinstance(caught.value, TypeError)
    assert caught.value.why and caught.value.asked


@pytest.mark.parametrize("wrong", [[], {}, 5, None, np.zeros(3)], ids=lambda x: type(x).__name__)
@pytest.mark.parametrize(
    "call",
    [
        lambda wrong: s()["B"].pragma("i", wrong),
        lambda wrong: s()["B"].bind("i", wrong),
        lambda wrong: s()["B"].set_scope(wrong),
        lambda wrong: s()["B"].split("i", factor=2, tail=wrong if wrong is not None else 5),
        lambda wrong: s().cache_read("A", wrong, ["B"]),
        lambda wrong: s().cache_write("B", wrong),
        lambda wrong: s().cache_write("B", "local", keep_loops=wrong if wrong is not None else 5),
    ],
)
def test_what_is_no_text_or_flag_is_a_schedule_error(call: Callable[[object], object], wrong: object) -> None:
    with pytest.raises(ScheduleError, match="is not (text|True or False)") as caught:
        call(wrong)
    assert caught.value.legal


def test_numbers_of_numpy_are_constants() -> None:
    assert te.const(np.float32(3), "int32").value == 3
    s()["B"].split("i", factor=np.int64(2))


def test_paths_too_long_are_told() -> None:
    assert list(records.read_workload("w", "llvm", "a" * 3000).records) == []
    with pytest.raises(AutoschedError, match="no such file"):
        autosched.load_module("a" * 3000)


@pytest.mark.parametrize("case", WRONG_VALUE)
def test_wrong_values_are_value_errors(case: str) -> None:
    with pytest.raises(AutoschedError) as caught:
        WRONG_VALUE[case]()
    assert isinstance(caught.value, ValueError)
    assert not isinstance(caught.value, TypeError)
    assert caught.value.legal


@pytest.mark.parametrize("shape", [(1,) * 65, (2**32, 2**32), (2**32, 2**32, 0)], ids=["dimensions", "bytes", "none"])
def test_arrays_that_numpy_does_not_have_are_refused(shape: tuple[int, ...]) -> None:
    module = build(create_schedule(te.compute(shape, lambda *i: te.const(1, "int8"))), "llvm")
    for make in (module, lambda: module.time(repeat=1), lambda: nd.empty(shape, "int8")):
        with pytest.raises(ArgumentError, match=r"an array of shape \(.*NumPy cannot hold it") as caught:
            make()
        assert caught.value.legal.startswith("64 dimensions at most")


def test_arguments_of_a_call() -> None:
    module = build(s(), "llvm", args=[A, B])
    good = np.zeros((4, 4), "float32")
    for wrong in ((good.astype("float64"),), ("x",), (None,), (), (good, good, good)):
        with pytest.raises(TypeError) as caught:
            module(*wrong)
        assert isinstance(caught.value, AutoschedError)
    for array in (good[:3], good[0], good.T[::-1][:3]):
        with pytest.raises(ValueError, match=r"argument 'A'") as refused:
            module(array)
        assert not isinstance(refused.value, TypeError)
    for counts in ({"number": True}, {"repeat": "x"}, {"number": 1.5}, {"repeat": NAN}):
        with pytest.raises(UsageTypeError):
            module.time(good, **counts)  # type: ignore[arg-type]


def test_masks_are_not_dropped() -> None:
    masked = np.ma.masked_array(np.ones((4, 4), "float32"), mask=np.eye(4))
    module = build(s(), "llvm", args=[A, B])
    plain = np.ones((4, 4), "float32")
    module(plain)  # so that the native call is there, too
    for use in (
        lambda: module(masked),
        lambda: module(plain, masked),
        lambda: te.reference([A, B], [masked]),
        lambda: nd.array(masked),
        lambda: nd.array(plain).copyfrom(masked),
    ):
        with pytest.raises(UsageTypeError, match="masked array") as caught:
            use()
        assert ".filled" in caught.value.legal
    assert (module(masked.filled(3)) == masked.filled(3) + 1).all()


@pytest.mark.parametrize("wrong", ["x", None, 1.5, True, NAN, -1, [3]], ids=repr)
@pytest.mark.parametrize(
    "name", [f.name for f in dataclasses.fields(TimeEvaluator) if f.name not in ("function", "f_preproc")]
)
def test_counts_of_a_timing_are_whole_numbers(name: str, wrong: object) -> None:
    module = build(s(), "llvm", args=[A, B])
    is_time = name.endswith("_ms") and isinstance(wrong, float) and wrong == wrong
    if is_time:
        module.time_evaluator("B", **{name: wrong})  # type: ignore[arg-type]
        return
    with pytest.raises(UsageError, match=rf"time_evaluator\({name}=") as caught:
        module.time_evaluator("B", **{name: wrong})  # type: ignore[arg-type]
    assert isinstance(caught.value, TypeError) == (wrong != -1 and not (name.endswith("_ms") and wrong != wrong))


def test_the_timing_of_nothing_ends() -> None:
    a = te.placeholder((0,), name="A")
    module = build(create_schedule(te.compute((0,), lambda i: a[i] + 1, name="B")), "llvm")
    times = module.time(np.zeros(0, "f4"))
    assert len(times) == 3 and max(times) < 1e-9
    assert module.time_evaluator(module.entry_name, min_repeat_ms=50)(np.zeros(0, "f4")).max < 1e-9


def test_a_timing_that_never_ends_is_refused() -> None:
    module = build(s(), "llvm", args=[A, B])
    with pytest.raises(UsageError, match="inf is not finite"):
        module.time_evaluator("B", min_repeat_ms=float("inf"))
    with pytest.raises(UsageTypeError, match="f_preproc"):
        module.time_evaluator("B", f_preproc=5)  # type: ignore[arg-type]
    with pytest.raises(UsageTypeError, match="is not the name of a function"):
        module.time_evaluator([])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["m", "m.ll", "m.o", "m.so", "m.a", "m.tar"])
def test_files_that_cannot_be_written_are_named(name: str, tmp_path: Path) -> None:
    module = build(s(), "llvm", args=[A, B])
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "nowhere", tmp_path / "file"):
        for write in (module.save, module.export_library):
            if write == module.export_library and name in ("m", "m.ll") or write == module.save and name in ("m.so",):
                continue
            with pytest.raises(FileError, match=name) as caught:
                write(folder / name)
            assert isinstance(caught.value, OSError) and caught.value.legal
    for wrong, kind in ((5, TypeError), (b"x", TypeError), ("", FileError), ("a\0b", FileError)):
        with pytest.raises(UsageError) as refused:
            module.save(wrong)  # type: ignore[arg-type]
        assert isinstance(refused.value, kind)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_records_are_kept_in_regular_files(tmp_path: Path) -> None:
    (tmp_path / "zero.jsonl").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe.jsonl")
    end = os.open(tmp_path / "pipe.jsonl", os.O_RDWR)  # what opens the pipe need not wait
    try:
        for name in ("zero", "pipe"):
            with pytest.raises(RecordError, match="is not a regular file"):
                check_writable(tmp_path / f"{name}.jsonl")
    finally:
        os.close(end)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    for file in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(FileError, match="Module.load"):
            Module.load(file)


def test_tvm_error_is_a_runtime_error() -> None:
    with pytest.raises(RuntimeError):
        tvm.te.placeholder((4,), "floaty")
    assert issubclass(tvm.TVMError, RuntimeError)
    assert issubclass(UsageError, tvm.TVMError)


def test_tvm_wraps_literals() -> None:
    assert [tvm.tir.const(*x).value for x in ((-1, "uint8"), (300, "uint8"), (2**31, "int32"))] == [255, 44, -(2**31)]
    assert tvm.te.const is tvm.tir.const
    assert te.const(255, "uint8").value == 255


def test_members_of_an_archive_stay_in_it(tmp_path: Path) -> None:
    module = build(s(), "llvm", args=[A, B], name="my.kernel, no 1")
    module.export_library(tmp_path / "x.tar")
    with tarfile.open(tmp_path / "x.tar") as archive:
        assert sorted(archive.getnames()) == ["module.autosched", "my_kernel__no_1.o", "x.h"]
    assert autosched.load_module(tmp_path / "x.tar")(np.zeros((4, 4), "float32")).sum() == 16


def test_names_of_tensors_may_have_slashes(tmp_path: Path) -> None:
    """As those of TensorFlow's have."""
    a = te.placeholder((4,), name="conv1/input")
    b = te.compute((4,), lambda i: a[i] + 1, name="conv1/bias")
    module = build(create_schedule(b), "llvm", args=[a, b])
    module.export_library(tmp_path / "x.tar")
    assert module.name == "conv1_bias"
    assert module(np.zeros(4, "float32")).tolist() == [1] * 4


def test_sizes_of_derived_dimensions() -> None:
    h, w = te.var("h"), te.var("w")
    padded = te.placeholder((h + 2, 2 * w), name="padded")
    out = te.compute((h, w), lambda y, x: padded[y, x] + padded[y + 2, 2 * x + 1], name="out")
    made = Workload("derived", (padded, out))
    arrays = made.sample_inputs({"h": 5, "w": 7})
    assert [a.shape for a in arrays] == [(7, 14)]
    assert made.sizes_of(arrays) == {"h": 5, "w": 7}
    assert made.sizes_at({"h": 5, "w": 7}) == {"h": 5, "w": 7}
    assert made.reference(arrays)[0].shape == (5, 7)
    with pytest.raises(UsageError, match="--size h=1024"):
        made.sample_inputs({"w": 7})
