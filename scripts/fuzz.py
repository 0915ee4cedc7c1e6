"""Runs every fuzzer for a while: `./dev fuzz [SECONDS]`.

What a fuzzer learns is kept in the cache and is where the next run starts; the first one starts
from tests/fuzz/seeds/ and from models made here. An input that crashes is kept in build/crashes/.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx
from onnx import TensorProto, helper

ROOT = Path(__file__).resolve().parent.parent
FUZZERS = ROOT / "build" / "fuzz" / "tests"
SEEDS = ROOT / "tests" / "fuzz" / "seeds"
CRASHES = ROOT / "build" / "crashes"
LEARNED = Path(os.environ.get("OPWELD_CACHE") or Path.home() / ".cache" / "opweld") / "fuzz"
# Longer inputs slow a fuzzer down more than they teach it.
LONGEST_INPUT = 8192


def seed_models() -> dict[str, onnx.ModelProto]:
    """Small models that between them use the parts of the format: weights, functions, branches."""
    batch = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    weight = helper.make_tensor("w", TensorProto.FLOAT, [4, 4], [0.5] * 16)
    condition = helper.make_tensor("c", TensorProto.BOOL, [], [True])

    def branch(op: str) -> onnx.GraphProto:
        return helper.make_graph([helper.make_node(op, ["x"], ["b"])], op, [], [result_named("b")])

    def result_named(name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, None)

    bodies = {
        "matmul": ([helper.make_node("MatMul", ["x", "w"], ["y"])], [weight]),
        "if": (
            [
                helper.make_node(
                    "If", ["c"], ["y"], then_branch=branch("Relu"), else_branch=branch("Neg")
                )
            ],
            [condition],
        ),
        "function": ([helper.make_node("Double", ["x"], ["y"], domain="local")], []),
    }
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    double = helper.make_function(
        "local", "Double", ["a"], ["d"], [helper.make_node("Add", ["a", "a"], ["d"])], opsets[:1]
    )
    return {
        name: helper.make_model(
            helper.make_graph(nodes, name, [batch], [result], weights),
            opset_imports=opsets,
            functions=[double],
        )
        for name, (nodes, weights) in bodies.items()
    }


SEED_GRAPH = """graph g(%x: f32[n, 2]) {
  %c = constant {value = f32[2] random 1}
  %y = add(%x, %c)
  %v, %k = top_k(%y) {axis = 1, k = <1>}
  %z = reshape(%v) {shape = <n>}
  return %z as "z", %k as "k" }"""


def compile_seeds(corpus: Path) -> None:
    """A compiled model, where the release build is there to make it."""
    command = ROOT / "build" / "release" / "tools" / "opweld" / "opweld"
    if not command.is_file():
        return
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "seed.graph"
        source.write_text(SEED_GRAPH)
        # Code that takes no more bytes than a fuzzer may be given.
        options = ["--no-account", "--target", "host-generic"]
        seed = corpus / "seed.opw"
        subprocess.run(
            [str(command), "compile", str(source), "-o", str(seed), *options], check=True
        )
    if seed.stat().st_size > LONGEST_INPUT:
        raise SystemExit(f"the compiled seed has more than {LONGEST_INPUT} bytes")


def learned_corpus(name: str) -> Path:
    """The folder where a fuzzer keeps what it learned, with the seeds in it from the start."""
    corpus = LEARNED / name
    corpus.mkdir(parents=True, exist_ok=True)
    for seed in (SEEDS / name).glob("*"):
        (corpus / seed.name).write_bytes(seed.read_bytes())
    if name == "opw":
        compile_seeds(corpus)
    if name == "onnx":
        for model_name, model in seed_models().items():
            (corpus / f"{model_name}.onnx").write_bytes(model.SerializeToString())
    return corpus


def fuzz(fuzzer: Path, seconds: int) -> bool:
    """Runs one fuzzer; whether it found nothing."""
    name = fuzzer.name.removesuffix("_fuzz")
    CRASHES.mkdir(parents=True, exist_ok=True)
    print(f">> fuzzing {name} for {seconds} s", flush=True)
    options = [
        f"-max_total_time={seconds}",
        f"-max_len={LONGEST_INPUT}",
        f"-artifact_prefix={CRASHES}/{name}-",
        "-timeout=10",
        "-rss_limit_mb=2048",
        "-print_final_stats=1",
        "-verbosity=0",
    ]
    code = subprocess.run([str(fuzzer), *options, str(learned_corpus(name))], cwd=ROOT).returncode
    if code != 0:
        print(f"   found: run {fuzzer.relative_to(ROOT)} on the file named above to see it again")
    return code == 0


def main(arguments: list[str]) -> int:
    """Entry of `./dev fuzz`."""
    if len(arguments) != 1 or not arguments[0].isdigit():
        print("fuzz takes the number of seconds for each fuzzer", file=sys.stderr)
        return 2
    fuzzers = sorted(FUZZERS.glob("*_fuzz"))
    if not fuzzers:
        print("no fuzzer was built", file=sys.stderr)
        return 1
    results = [fuzz(fuzzer, int(arguments[0])) for fuzzer in fuzzers]
    print(f"{sum(results)} fuzzers found nothing, {len(results) - sum(results)} found something")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
