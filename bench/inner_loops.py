"""What the innermost loops of generated kernels consist of, read from their assembly.

`./dev bench --inner-loops` prints a table: of each kernel the loops that do most of its
arithmetic, with their instructions by kind, and what follows from the rates of the core.
`--listing` adds the loops themselves. Nothing is timed: the numbers say what a loop could do at
best with its data in the first cache.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.document import replaced
from bench.models.cache import ROOT
from bench.opweld_command import OpweldError, assembly_of
from bench.table import markdown_table, table

# Between these marks in the document.
BEGIN = "<!-- What follows is written by ./dev bench --inner-loops --document. -->"
END = "<!-- What precedes is written by ./dev bench --inner-loops --document. -->"
DOCUMENT = ROOT / "docs" / "inner-loops.md"

# A cycle of a core of the Golden Cove kind at its best, by the Intel 64 and IA-32 Architectures
# Optimization Reference Manual: vector operations of 512 bits (three of 256, of which two may be
# multiply-adds), loads and stores of 512 bits (three and two of 256), instructions. A division or
# square root of vectors keeps its unit for so many cycles.
MULTIPLY_ADDS = 2
VECTOR_OPERATIONS = {64: 2, 32: 3}
LOADS = {64: 2, 32: 3}
STORES = {64: 1, 32: 2}
INSTRUCTIONS = 6
DIVISION_CYCLES = {64: 10, 32: 5}


@dataclass(frozen=True)
class Kernel:
    """A group whose kernel is looked at: the graph, for which targets, how many of its loops."""

    name: str
    graph: str
    loops: int = 1
    targets: tuple[str, ...] = ("host-avx512", "host-avx2")


def matmul(name: str, rows: str, depth: int, columns: int) -> Kernel:
    """X W with constant weights in fp32."""
    return Kernel(
        name,
        f"""graph g(%x: f32[{rows}, {depth}]) {{
          %w = constant {{value = f32[{depth}, {columns}] random 1}}
          %y = matmul(%x, %w)
          return %y as "y"
        }}""",
    )


KERNELS = [
    matmul("matmul 1024 x 1024 x 1024", "1024", 1024, 1024),
    matmul("matmul 1 x 4096 x 4096", "1", 4096, 4096),
    Kernel(
        "attention 8 heads of 64, 512 x 512",
        """graph g(%q: f32[1, 8, 512, 64], %k: f32[1, 8, 512, 64], %v: f32[1, 8, 512, 64]) {
          %y = attention(%q, %k, %v) {scale = 0.125, causal = "none"}
          return %y as "y"
        }""",
        loops=3,
    ),
    Kernel(
        "RMSNorm + residual, rows of 4096",
        """graph g(%x: f32[s, 4096], %r: f32[s, 4096]) {
          %g = constant {value = f32[4096] random 1}
          %h = add(%x, %r)
          %y = rms_norm(%h, %g) {axis = -1, epsilon = 1e-05}
          return %h as "h", %y as "y"
        }""",
        loops=2,
    ),
    Kernel(
        "softmax, rows of 4096",
        """graph g(%x: f32[s, 4096]) {
          %y = softmax(%x) {axis = -1}
          return %y as "y"
        }""",
        loops=3,
    ),
    Kernel(
        "GELU",
        """graph g(%x: f32[s, 4096]) {
          %y = gelu(%x)
          return %y as "y"
        }""",
    ),
    Kernel(
        "chain of tanh and sigmoid",
        """graph g(%x: f32[s, 4096]) {
          %a = constant {value = f32[4096] random 1}
          %b = constant {value = f32[4096] random 2}
          %m = mul(%x, %a)
          %h = add(%m, %b)
          %t = tanh(%h)
          %s = sigmoid(%x)
          %p = mul(%t, %s)
          %y = add(%p, %x)
          return %y as "y"
        }""",
    ),
]


@dataclass(frozen=True)
class Instruction:
    """One line of assembly in the syntax of AT&T: the destination comes last."""

    text: str
    mnemonic: str
    operands: tuple[str, ...]

    @classmethod
    def parse(cls, line: str) -> Instruction:
        """Without comments."""
        mnemonic, _, rest = line.partition("#")[0].strip().partition("\t")
        # Commas inside an address separate nothing.
        operands = tuple(part.strip() for part in re.split(r",(?![^(]*\))", rest) if part.strip())
        return cls(line.strip(), mnemonic, operands)

    @property
    def is_vector(self) -> bool:
        """Of AVX, and of tiles."""
        return self.mnemonic.startswith(("v", "tdp", "tile"))

    @property
    def is_multiply_add(self) -> bool:
        """A product of vectors or tiles that is added to a sum."""
        return re.match(r"vfn?m(add|sub)\w*p[sdh]$|vdpbf16ps|tdp", self.mnemonic) is not None

    @property
    def is_division(self) -> bool:
        """A division or square root of vectors."""
        return self.mnemonic.startswith(("vdivp", "vsqrtp"))

    @property
    def is_prefetch(self) -> bool:
        """Asks for a cache line and waits for nothing."""
        return self.mnemonic.startswith("prefetch")

    @property
    def is_move(self) -> bool:
        """Moves a vector between registers, or from or to memory."""
        return self.mnemonic.startswith(("vmov", "vbroadcast", "tileload", "tilestore"))

    @property
    def is_load(self) -> bool:
        """Reads memory."""
        if self.is_prefetch or self.mnemonic.startswith("lea"):
            return False
        reads_last = self.mnemonic.startswith(("cmp", "test", "add", "sub", "inc", "dec"))
        read = self.operands if reads_last else self.operands[:-1]
        return any("(" in operand for operand in read)

    @property
    def is_store(self) -> bool:
        """Writes memory."""
        if self.is_prefetch or not self.operands or "(" not in self.operands[-1]:
            return False
        return not self.mnemonic.startswith(("cmp", "test", "j", "vcmp", "vucomi", "vcomi"))

    @property
    def on_stack(self) -> bool:
        """Its address is in the frame of the function: a value that found no register."""
        return any("(" in operand and "%rsp" in operand for operand in self.operands)

    @property
    def width(self) -> int:
        """Bytes of the widest vector that it names; 8 where it names none."""
        names = {"tmm": 1024, "zmm": 64, "ymm": 32, "xmm": 16}
        text = " ".join(self.operands)
        return next((width for name, width in names.items() if name in text), 8)

    @property
    def loaded_bytes(self) -> int:
        """What a load brings: one element where it is repeated in all lanes."""
        if not self.is_load:
            return 0
        if self.mnemonic.endswith("ss") or ("ps" in self.mnemonic and "{1to" in self.text):
            return 4
        if self.mnemonic.endswith("sd") or "{1to" in self.text:
            return 8
        return self.width


@dataclass(frozen=True)
class Loop:
    """An innermost loop: the instructions from its label to the branch back."""

    instructions: tuple[Instruction, ...]

    def count(self, what: str) -> int:
        """How many instructions have the property of that name."""
        return sum(getattr(each, what) for each in self.instructions)

    @property
    def multiply_adds(self) -> int:
        """Instructions, each of as many products as a vector has lanes."""
        return self.count("is_multiply_add")

    @property
    def other_vector(self) -> int:
        """Vector operations that neither multiply and add nor move."""
        return sum(
            each.is_vector and not each.is_multiply_add and not each.is_move
            for each in self.instructions
        )

    @property
    def scalar(self) -> int:
        """Addresses, counters, branches."""
        return sum(not each.is_vector and not each.is_prefetch for each in self.instructions)

    @property
    def bytes_loaded(self) -> int:
        """By one turn of the loop."""
        return sum(each.loaded_bytes for each in self.instructions)

    def cycles(self) -> dict[str, float]:
        """The least cycles of a turn that each resource of a core allows."""
        widest = 64 if any(each.width == 64 for each in self.instructions) else 32
        operations = self.multiply_adds + self.other_vector
        return {
            "multiply-adds": self.multiply_adds / MULTIPLY_ADDS,
            "vector operations": operations / VECTOR_OPERATIONS[widest],
            "divisions": self.count("is_division") * DIVISION_CYCLES[widest],
            "loads": self.count("is_load") / LOADS[widest],
            "stores": self.count("is_store") / STORES[widest],
            "instructions": len(self.instructions) / INSTRUCTIONS,
        }

    def bound(self) -> str:
        """The resource that takes the most; the first of those that take as much."""
        cycles = self.cycles()
        return max(cycles, key=lambda name: cycles[name])

    def share_of_peak(self) -> float:
        """Of the multiply-adds that a core does at best."""
        cycles = self.cycles()
        return cycles["multiply-adds"] / max(cycles.values())


def innermost_loops(assembly: str) -> list[Loop]:
    """All of them, the one with the most multiply-adds first, then by other vector operations."""
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    back: list[tuple[int, int]] = []
    for line in assembly.splitlines():
        if label := re.match(r"(\.?\w+):", line):
            labels[label[1]] = len(instructions)
        elif re.match(r"\t[a-z]", line):
            instruction = Instruction.parse(line)
            instructions.append(instruction)
            target = instruction.operands[0] if instruction.operands else ""
            if instruction.mnemonic.startswith("j") and target in labels:
                back.append((labels[target], len(instructions)))
    inner = [
        (begin, end)
        for begin, end in back
        if not any(begin <= b and e <= end and (b, e) != (begin, end) for b, e in back)
    ]
    loops = {Loop(tuple(instructions[begin:end])): None for begin, end in inner}
    # What has no vectors only counts.
    useful = [loop for loop in loops if loop.multiply_adds + loop.other_vector > 0]
    return sorted(useful, key=lambda loop: (-loop.multiply_adds, -loop.other_vector))


def loops_of(kernel: Kernel, target: str) -> list[Loop]:
    """Those of a kernel that count; none where this machine does not have the target."""
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "kernel.graph"
        model.write_text(kernel.graph, encoding="utf-8")
        try:
            assembly = assembly_of(model, f"--target={target}", "--no-tuned")
        except OpweldError as error:
            if "not available here" not in str(error):
                raise
            return []
    return innermost_loops(assembly)[: kernel.loops]


HEADER = (
    *("kernel", "target", "multiply-adds", "other vector", "divisions", "loads", "of the stack"),
    "stores",
    *("prefetches", "scalar", "bytes loaded per multiply-add", "cycles", "bound by"),
    "of the peak",
)


def row_of(name: str, target: str, loop: Loop) -> list[str]:
    """The counts of one turn of a loop."""
    per = loop.bytes_loaded / loop.multiply_adds if loop.multiply_adds else None
    return [
        name,
        target.removeprefix("host-"),
        str(loop.multiply_adds),
        str(loop.other_vector),
        str(loop.count("is_division")),
        str(loop.count("is_load")),
        str(sum(each.on_stack for each in loop.instructions)),
        str(loop.count("is_store")),
        str(loop.count("is_prefetch")),
        str(loop.scalar),
        "-" if per is None else f"{per:.1f}",
        f"{max(loop.cycles().values()):.1f}",
        loop.bound(),
        f"{loop.share_of_peak():.0%}" if loop.multiply_adds else "-",
    ]


def format_inner_loops(
    kernels: Sequence[Kernel] = tuple(KERNELS), markdown: bool = False, listing: bool = False
) -> str:
    """A row for each loop; the loops themselves below, if asked for."""
    rows, listings = [], []
    for kernel in kernels:
        for target in kernel.targets:
            for loop in loops_of(kernel, target):
                rows.append(row_of(kernel.name, target, loop))
                lines = "\n".join(f"    {each.text}" for each in loop.instructions)
                listings.append(f"{kernel.name}, {target}:\n{lines}")
    text = (markdown_table if markdown else table)(HEADER, rows)
    return "\n\n".join([text, *(listings if listing else [])])


def write_inner_loops() -> None:
    """Replaces the table in the document."""
    text = DOCUMENT.read_text(encoding="utf-8")
    new = replaced(text, format_inner_loops(markdown=True), BEGIN, END)
    DOCUMENT.write_text(new, encoding="utf-8")
