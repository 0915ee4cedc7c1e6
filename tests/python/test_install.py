"""The installed package: a user's project builds against it, and against nothing else of ours."""

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.models.cache import ROOT

HEADERS = sorted(path.name for path in (ROOT / "include" / "opweld").glob("*.h"))


def run(*command: str | Path, **environment: str) -> str:
    """What the command prints; a failure shows all of it."""
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        env=os.environ | environment,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def build(source: Path, build: Path, prefix: Path) -> None:
    """Configures and builds a project that can find Opweld below `prefix` only."""
    run(
        "cmake", "-S", source, "-B", build, "-G", "Ninja",
        f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release",
        "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Wpedantic -Wshadow -Werror",
    )  # fmt: skip
    run("cmake", "--build", build)


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", ROOT / "build" / "release", "--prefix", folder)
    return folder


@pytest.fixture(scope="module")
def examples(prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples, built as a user's project."""
    folder = tmp_path_factory.mktemp("examples")
    build(ROOT / "examples", folder, prefix)
    return folder


@pytest.fixture(scope="module")
def example(examples: Path) -> str:
    """What the example prints."""
    return run(examples / "decoder_layer")


def test_the_runtime_is_a_component_of_its_own(prefix: Path, examples: Path) -> None:
    model = examples / "model.graph"
    model.write_text('graph g(%x: f32[n, 3]) { %y = add(%x, %x) return %y as "y" }')
    compiled = examples / "model.opw"
    run(prefix / "bin" / "opweld", "compile", model, "-o", compiled)
    assert run(examples / "run_compiled", compiled, "4") == "y [n, 3]: 4 3 first 2\n"


def test_the_example_agrees_with_its_unfused_self(example: str) -> None:
    differences = re.findall(r"length (\d+): largest difference \D+ (\S+)", example)
    assert [length for length, _ in differences] == ["17", "128"]
    # The values are about 1; f32 sums of a few hundred terms in another order.
    assert all(float(difference) < 1e-4 for _, difference in differences)


def test_the_example_shows_its_kernels(example: str) -> None:
    (counts,) = re.findall(r"(\d+) kernels instead of (\d+):", example)
    fused, unfused = map(int, counts)
    assert fused < unfused
    names = re.findall(r"^  ((?:Fused)?Kernel_\d+) +\S", example, re.MULTILINE)
    assert len(names) == fused
    assert "attention" in example


def test_the_layer_is_composed_in_under_80_lines() -> None:
    text = (ROOT / "examples" / "decoder_layer.cpp").read_text()
    composition = text[text.index("Result<Model> decoder_layer(") :]
    assert composition.index("\n}\n") > 0
    assert composition[: composition.index("\n}\n")].count("\n") < 80


def test_every_header_compiles_alone_and_needs_no_other_package(
    prefix: Path, tmp_path: Path
) -> None:
    assert "graph_builder.h" in HEADERS
    names = []
    for header in HEADERS:
        names.append(f"{header}.cpp")
        # Twice: a header that lacks its guard does not compile.
        text = f"#include <opweld/{header}>\n#include <opweld/{header}>\n"
        (tmp_path / names[-1]).write_text(text)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\n"
        "project(headers LANGUAGES CXX)\n"
        "find_package(Opweld 0.1 REQUIRED)\n"
        "get_property(imported DIRECTORY PROPERTY IMPORTED_TARGETS)\n"
        'if(NOT imported STREQUAL "Opweld::opweld")\n'
        '  message(FATAL_ERROR "targets: ${imported}")\n'
        "endif()\n"
        f"add_library(headers OBJECT {' '.join(names)})\n"
        "target_link_libraries(headers PRIVATE Opweld::opweld)\n"
    )
    build(tmp_path, tmp_path / "build", prefix)


def build_program(source: str, folder: Path, prefix: Path) -> Path:
    """The executable of a project of one file."""
    (folder / "program.cpp").write_text(source)
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\n"
        "project(program LANGUAGES CXX)\n"
        "find_package(Opweld 0.1 REQUIRED)\n"
        "add_executable(program program.cpp)\n"
        "target_link_libraries(program PRIVATE Opweld::opweld)\n"
    )
    build(folder, folder / "build", prefix)
    return folder / "build" / "program"


def test_the_code_of_the_readme_compiles_and_runs(prefix: Path, tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text()
    start = text.index("    #include <opweld/opweld.h>\n")
    block = re.match(r"(?:    .*\n|\n)+", text[start:])
    assert block
    head, body = block[0].split("\n\n", 1)
    source = (
        "#include <cstdio>\n#include <string>\n#include <vector>\n"
        f"{head}\n"
        "int complain(const std::string& message) { return std::puts(message.c_str()); }\n"
        "int main() {\n"
        "  const std::vector<float> weights(384 * 1536, 0.5F), values(8 * 384, 1.0F);\n"
        f"{body}\n"
        "  return outputs->front().to_doubles().front() == 192 ? 0 : 1;\n"
        "}\n"
    )
    assert "AutoFusion: matmul + gelu" in run(build_program(source, tmp_path, prefix))


LOADER = """
#include <opweld/opweld.h>

#include <cstdio>

int main(int, char** arguments) {
  const auto model = opweld::Model::load(arguments[1]);
  if (!model) return std::printf("%s\\n", model.error().message.c_str()), 1;
  std::printf("%s\\n", model->inputs()[0].to_string().c_str());
  const std::vector<float> x = {1, 2, 3, -1, -2, -3};
  const auto program = model->compile();
  const auto outputs = program->run_named({{"x", opweld::TensorView(x, {2, 3})}});
  for (const double y : outputs->at("y").to_doubles()) std::printf("%g ", y);
}
"""


def test_a_program_loads_an_onnx_file(prefix: Path, tmp_path: Path) -> None:
    weights = np.array([[1, 0], [0, 1], [1, 1]], dtype=np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["p"]),
            helper.make_node("Relu", ["p"], ["y"]),
        ],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 2])],
        [numpy_helper.from_array(weights, "w")],
    )
    path = tmp_path / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    program = build_program(LOADER, tmp_path, prefix)
    assert run(program, path).split("\n") == ["x: f32[batch, 3]", "4 5 0 0 "]
    missing = subprocess.run([program, tmp_path / "none.onnx"], capture_output=True, text=True)
    assert missing.returncode == 1
    assert "none.onnx" in missing.stdout


def test_the_library_gives_out_its_public_interface_only(prefix: Path) -> None:
    (library,) = prefix.glob("lib*/**/libopweld.so")
    table = run("nm", "--dynamic", "--defined-only", "--demangle", library)
    names = [line.split(maxsplit=2)[2] for line in table.splitlines()]
    public = [name for name in names if name.startswith("opweld::")]
    assert any(name.startswith("opweld::GraphBuilder::finish") for name in public)
    inner = ("opweld::compile(", "opweld::Graph::", "opweld::Executable::", "opweld::tile::")
    assert [name for name in names if name.startswith((*inner, "llvm::", "google::"))] == []


def test_the_command_is_installed(prefix: Path, tmp_path: Path) -> None:
    assert "explain" in run(prefix / "bin" / "opweld", "--help")
