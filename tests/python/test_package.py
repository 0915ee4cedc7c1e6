"""The Python package without PyTorch: models, programs, arrays in and out, errors, threads."""

import subprocess
import sys
import threading
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import opweld
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.models.cache import ROOT

PACKAGE = ROOT / "build" / "release" / "python"

SMALL = """
graph small(%x: f32[s, 4], %y: f32[s, 4]) {
  %sum = add(%x, %y)
  %out = relu(%sum)
  return %out as "out", %sum as "sum"
}
"""


@pytest.fixture(scope="module")
def small() -> opweld.Program:
    return opweld.compile(opweld.parse(SMALL))


def rows(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, 4)).astype(np.float32)


def test_a_program_tells_its_inputs_and_outputs(small: opweld.Program) -> None:
    assert [info.name for info in small.inputs] == ["x", "y"]
    assert [info.dtype for info in small.outputs] == ["f32", "f32"]
    assert small.inputs[0].sizes == ["s", 4]
    assert repr(small) == (
        "opweld.Program((x: f32[s, 4], y: f32[s, 4]) -> (out: f32[s, 4], sum: f32[s, 4]))"
    )


@pytest.mark.parametrize("count", [0, 1, 7, 64])
def test_any_number_of_rows(small: opweld.Program, count: int) -> None:
    x, y = rows(count, 1), rows(count, 2)
    out, total = small(x, y)
    assert type(out) is np.ndarray and out.dtype == np.float32 and out.shape == (count, 4)
    np.testing.assert_array_equal(total, x + y)
    np.testing.assert_array_equal(out, np.maximum(x + y, 0))


def test_inputs_by_name(small: opweld.Program) -> None:
    x, y = rows(3, 1), rows(3, 2)
    np.testing.assert_array_equal(small(y=y, x=x)[1], x + y)
    np.testing.assert_array_equal(small(x, y=y)[1], x + y)
    with pytest.raises(opweld.UsageError, match="'z' is none of the model's; the inputs are x, y"):
        small(x, z=y)
    with pytest.raises(opweld.UsageError, match="'x' is given twice"):
        small(x, x=y)
    with pytest.raises(opweld.UsageError, match="'y' is missing"):
        small(x=x)


def test_what_is_not_dense_is_copied_and_counted(small: opweld.Program) -> None:
    base = rows(12, 1)
    wide = np.random.default_rng(3).normal(size=(6, 8)).astype(np.float32)
    before = small.stats.copied_inputs
    total = small(base[::2], wide[:, 1::2])[1]
    np.testing.assert_array_equal(total, base[::2] + wide[:, 1::2])
    assert small.stats.copied_inputs == before + 2
    backwards = base[::-1]
    np.testing.assert_array_equal(small(backwards, base)[1], backwards + base)
    fortran = np.asfortranarray(base)
    np.testing.assert_array_equal(small(fortran, base)[1], fortran + base)
    misaligned = np.frombuffer(b"x" + base.tobytes(), np.uint8)[1:].view(np.float32).reshape(12, 4)
    np.testing.assert_array_equal(small(misaligned, base)[1], base + base)
    assert small.stats.copied_inputs == before + 5
    small(base, base)
    assert small.stats.copied_inputs == before + 5


def test_outputs_live_on_without_their_program() -> None:
    program = opweld.compile(opweld.parse(SMALL))
    x = rows(1000, 4)
    out, total = program(x, x)
    del program
    assert out.flags.writeable
    total += 1
    np.testing.assert_array_equal(out, np.maximum(x + x, 0))
    np.testing.assert_array_equal(total, x + x + 1)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((rows(3, 1),), "takes 2 inputs|2 inputs"),
        ((rows(3, 1), rows(4, 1)), "'y'"),
        ((rows(3, 1), rows(3, 1).astype(np.float64)), "'y'.*f64"),
        ((rows(3, 1), rows(3, 1)[:, :3]), "'y'"),
        ((rows(3, 1), rows(3, 1)[0]), "'y'"),
        ((rows(3, 1), "text"), "input number 2 is no array"),
        ((rows(3, 1), None), "input number 2 is no array"),
        ((rows(3, 1), rows(3, 1).astype(np.complex64)), "input number 2 has a dtype"),
    ],
)
def test_a_wrong_input_is_an_error_that_names_it(
    small: opweld.Program, inputs: tuple[object, ...], message: str
) -> None:
    with pytest.raises(opweld.UsageError, match=message):
        small(*inputs)
    assert issubclass(opweld.UsageError, ValueError)
    assert issubclass(opweld.UsageError, opweld.Error)


def test_failures_of_a_run_and_of_reading(tmp_path: Path) -> None:
    gather = opweld.compile(
        opweld.parse(
            'graph g(%x: f32[5, 2], %i: i64[n]) { %y = gather(%x, %i) {axis = 0} return %y as "y" }'
        )
    )
    with pytest.raises(opweld.Error, match="index is out of range of an axis of size 5") as caught:
        gather(np.zeros((5, 2), np.float32), np.array([1, 7]))
    assert not isinstance(caught.value, opweld.UsageError)
    with pytest.raises(opweld.Error, match="none"):
        opweld.load(tmp_path / "none.onnx")
    with pytest.raises(opweld.Error):
        opweld.parse("graph")
    with pytest.raises(opweld.UsageError, match="fusion is 'none', 'ops' or 'auto', not 'all'"):
        opweld.compile(opweld.parse(SMALL), fusion="all")


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8"])
def test_every_dtype(dtype: str) -> None:
    numpy_dtype = np.dtype(
        {"bf16": ml_dtypes.bfloat16, "f16": np.float16}.get(dtype)
        or {"f": "float", "i": "int", "u": "uint"}[dtype[0]] + dtype[1:]
    )
    text = f'graph g(%x: {dtype}[n]) {{ %y = add(%x, %x) return %y as "y" }}'
    x = np.array([0, 1, 2, 3, 60], numpy_dtype)
    (y,) = opweld.compile(opweld.parse(text))(x)
    assert y.dtype == numpy_dtype
    np.testing.assert_array_equal(y, x + x)


def test_bools_and_scalars() -> None:
    text = 'graph g(%a: bool[n], %b: bool[]) { %y = and(%a, %b) return %y as "y" }'
    program = opweld.compile(opweld.parse(text))
    (y,) = program(np.array([True, False]), np.array(True))
    assert y.dtype == np.bool_ and y.tolist() == [True, False]
    (y,) = program(np.array([True, False]), np.bool_(False))
    assert y.tolist() == [False, False]


def test_whatever_has_the_buffer_protocol() -> None:
    program = opweld.compile(
        opweld.parse('graph g(%x: u8[n]) { %y = add(%x, %x) return %y as "y" }')
    )
    (y,) = program(memoryview(bytes([1, 2, 3])))
    assert hasattr(y, "__dlpack__")
    assert list(np.from_dlpack(y)) == [2, 4, 6]


def test_the_account(small: opweld.Program) -> None:
    account = small.explain(s=16)
    assert len(account.kernels) == 1
    assert account.bytes_read == 2 * 16 * 4 * 4
    assert account.bytes_written == 2 * 16 * 4 * 4
    assert account.json["totals"]["kernels"] == 1
    assert "AutoFusion: add + relu" in str(account)
    assert "<table>" in account._repr_html_()
    with pytest.raises(opweld.UsageError, match="'s' has no value"):
        small.explain()
    with pytest.raises(opweld.UsageError, match="no free size 't'"):
        small.explain(s=1, t=2)
    assert "explain(s=...)" in small._repr_html_()


def test_names_in_html_are_escaped() -> None:
    text = 'graph g(%x: f32[2]) { %y = relu(%x) return %y as "<script>" }'
    program = opweld.compile(opweld.parse(text))
    page = program._repr_html_() + repr(program).replace("<", "")
    assert "<script>" not in page


def test_verify_holds_a_run_and_its_kernels_against_their_meaning(small: opweld.Program) -> None:
    result = small.verify(rows(5, 1), y=rows(5, 2))
    assert isinstance(result, opweld.Verification)
    assert result.ok and result.fault == "" and result.differing == []
    assert [check.name for check in result.outputs] == ["out", "sum"]
    assert all(check.to_unfused == 0 for check in result.outputs)
    assert all(0 < check.to_reference < 1e-6 and check.of_tolerance < 1 for check in result.outputs)
    (kernel,) = result.kernels
    assert kernel.name == small.explain(s=5).kernels[0]["name"]
    assert kernel.operators == "add + relu" and 0 < kernel.largest_difference < 1e-6
    assert str(result).startswith("1 kernel held to operators in double precision: all agree\n")
    assert "<td>add + relu</td>" in result._repr_html_()
    with pytest.raises(opweld.UsageError, match="'y' is missing"):
        small.verify(x=rows(5, 1))
    with pytest.raises(opweld.UsageError, match="'y'"):
        small.verify(rows(5, 1), rows(5, 1)[:, :2])


@pytest.mark.parametrize("fusion", ["none", "ops", "auto"])
@pytest.mark.parametrize("numerics", ["default", "strict"])
def test_verify_is_of_the_program_as_it_was_compiled(fusion: str, numerics: str) -> None:
    program = opweld.compile(opweld.parse(SMALL), fusion=fusion, numerics=numerics)
    result = program.verify(rows(17, 1), rows(17, 2))
    assert result.ok
    # In strict numerics, unfused kernels are checked: fused results are the same to the bit.
    assert len(result.kernels) == (1 if fusion == "auto" and numerics == "default" else 2)


def test_verify_tells_which_kernel_differs() -> None:
    # In f32 the one is lost beside 1e8; in double precision it is not.
    weight = "%w = constant {value = f32[3, 1] {1.0, 1.0, 1.0}}"
    text = f'graph g(%x: f32[s, 3]) {{ {weight} %y = matmul(%x, %w) return %y as "<y>" }}'
    program = opweld.compile(opweld.parse(text))
    result = program.verify(np.array([[1e8, 1, -1e8], [1, 2, 3]], np.float32))
    assert not result.ok
    assert "output '<y>', against the reference" in result.fault
    assert [kernel.name for kernel in result.differing] == [result.kernels[0].name]
    assert "1 differ" in result.headline() and result.fault in str(result)
    assert "<y>" not in result._repr_html_() and "&lt;y&gt;" in result._repr_html_()


def test_the_stats(small: opweld.Program) -> None:
    calls = small.stats.calls
    small(rows(2, 1), rows(2, 1))
    assert small.stats.calls == calls + 1
    assert small.stats.last is not None and small.stats.last.kernels == 1
    assert small.stats.compile_seconds > 0


def test_threads_call_at_once_while_python_goes_on(small: opweld.Program) -> None:
    failures: list[str] = []

    def work(seed: int) -> None:
        for i in range(20):
            x, y = rows(seed + i, seed), rows(seed + i, i)
            if not np.array_equal(small(x, y)[1], x + y):
                failures.append(f"{seed} {i}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_an_onnx_file(tmp_path: Path) -> None:
    weights = np.array([[1, 0], [0, 1], [1, 1]], dtype=np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 2])],
        [numpy_helper.from_array(weights, "w")],
    )
    path = tmp_path / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    program = opweld.compile(path, fusion="none", threads=1)
    x = np.array([[1, 2, 3], [-1, -2, -3]], dtype=np.float32)
    assert program(x)[0].tolist() == [[4, 5], [0, 0]]
    assert len(program.explain(batch=2).kernels) == 2


def test_neither_pytorch_nor_numpy_is_needed() -> None:
    code = """
import sys
sys.modules["torch"] = sys.modules["numpy"] = None
import opweld
program = opweld.compile(opweld.parse('graph g(%x: u8[n]) { %y = add(%x, %x) return %y as "y" }'))
(y,) = program(bytes([1, 2]))
print(list(memoryview(y)), program.explain(n=2).headline())
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(PACKAGE)},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "[2, 4] 1 kernels, 2 B read, 2 B written at n = 2\n", done.stderr


def test_the_builder() -> None:
    builder = opweld.GraphBuilder("mlp")
    x = builder.input("x", "f32", ["batch", 2])
    weight = builder.constant(np.array([[1, 2, 3], [4, 5, 6]], dtype=np.float32))
    (product,) = builder.op("matmul", [x, weight], {})
    assert repr(product) == "f32[batch, 3]" and product.sizes() == ["batch", 3]
    builder.output("y", product)
    program = opweld.compile(opweld.Model(builder.finish()))
    assert program(np.eye(2, dtype=np.float32))[0].tolist() == [[1, 2, 3], [4, 5, 6]]
    broken = opweld.GraphBuilder("broken")
    broken.op("matmul", [broken.input("x", "f32", [2]), None], {})
    with pytest.raises(opweld.Error, match="matmul"):
        broken.check()


def test_every_public_name_says_what_it_is() -> None:
    undocumented = [name for name in opweld.__all__ if not getattr(opweld, name).__doc__]
    assert undocumented == []
    stub = (PACKAGE / "opweld" / "_core.pyi").read_text()
    assert "def load(path: str) -> Model:" in stub and (PACKAGE / "opweld" / "py.typed").exists()
