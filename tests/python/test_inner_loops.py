"""What is counted in the loops of kernels."""

from bench.inner_loops import (
    BEGIN,
    DOCUMENT,
    END,
    Instruction,
    format_inner_loops,
    innermost_loops,
    loops_of,
    matmul,
)

# An outer loop around two inner ones, of which the second leaves early by a branch forwards.
ASSEMBLY = """
kernel:
\tpushq\t%rbp
.LBB0_1:
\tvmovups\t(%rax), %zmm0
\t.p2align\t4, 0x90
.LBB0_2:
\tvmovups\t64(%rsi,%rdi,4), %zmm1
\tvbroadcastss\t(%rdx), %zmm2
\tvfmadd231ps\t%zmm1, %zmm2, %zmm3
\tvfmadd231ps\t4(%rdx){1to16}, %zmm1, %zmm4
\tprefetcht0\t(%rcx)
\taddq\t$64, %rsi
\tcmpq\t%rsi, 8(%rsp)
\tjne\t.LBB0_2
.LBB0_3:
\tvaddps\t(%rax), %ymm1, %ymm1
\tje\t.LBB0_4
\tvmovups\t%ymm1, (%rbx)           # 32-byte Spill
\tjmp\t.LBB0_3
.LBB0_4:
\tincq\t-8(%rsp)
\tjne\t.LBB0_1
\tretq
"""


def test_innermost_loops_are_found_and_counted() -> None:
    first, second = innermost_loops(ASSEMBLY)
    assert len(first.instructions) == 8
    assert (first.multiply_adds, first.other_vector, first.scalar) == (2, 0, 3)
    assert [first.count(f"is_{kind}") for kind in ("load", "store", "prefetch")] == [4, 0, 1]
    assert sum(each.on_stack for each in first.instructions) == 1
    # A vector, two elements, and a word of the stack.
    assert first.bytes_loaded == 64 + 4 + 4 + 8
    assert first.cycles() == {
        "multiply-adds": 1,
        "vector operations": 1,
        "divisions": 0,
        "loads": 2,
        "stores": 0,
        "instructions": 8 / 6,
    }
    assert (first.bound(), first.share_of_peak()) == ("loads", 0.5)
    assert (second.multiply_adds, second.other_vector, second.scalar) == (0, 1, 2)
    assert (second.count("is_load"), second.count("is_store")) == (1, 1)
    # Of 256 bits there are three vector operations and two stores a cycle.
    assert second.cycles()["vector operations"] == 1 / 3
    assert second.cycles()["stores"] == 0.5


def test_instructions_are_told_apart() -> None:
    def of(line: str) -> Instruction:
        return Instruction.parse(f"\t{line}")

    assert of("vfnmadd213ps\t%ymm1, %ymm2, %ymm3").is_multiply_add
    assert of("tdpbf16ps\t%tmm1, %tmm2, %tmm3").is_multiply_add
    assert not of("vfmadd231ss\t%xmm1, %xmm2, %xmm3").is_multiply_add
    assert not of("vmulps\t%ymm1, %ymm2, %ymm3").is_multiply_add
    assert of("vdivps\t%zmm1, %zmm2, %zmm3").is_division
    assert not of("leaq\t8(%rax,%rbx), %rcx").is_load
    assert of("addq\t%rax, 8(%rsp)").is_load and of("addq\t%rax, 8(%rsp)").is_store
    assert not of("cmpq\t%rax, 8(%rsp)").is_store


def test_the_loop_of_a_matmul_is_that_of_its_register_tile() -> None:
    (loop,) = loops_of(matmul("tile", "48", 64, 64), "host-avx2")
    # Four steps of the depth of six rows by two vectors, each of which loads two vectors and six
    # elements, and nothing that found no register.
    assert loop.multiply_adds == 4 * 6 * 2
    assert loop.count("is_load") == 4 * (2 + 6)
    assert loop.bytes_loaded == 4 * (2 * 32 + 6 * 4)
    assert not any(each.on_stack for each in loop.instructions)
    assert loop.bound() == "multiply-adds"
    assert "100%" in format_inner_loops([matmul("tile", "48", 64, 64)])


def test_the_document_has_the_marks_of_the_table() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text.index(BEGIN) < text.index(END)
