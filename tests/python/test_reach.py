"""The layers of `python -m bench.reach`: runs count what plans say, at every level."""

from __future__ import annotations

import pytest

from bench.reach import CONFIGURATIONS, Layer, check, layers, planned, rows


@pytest.fixture(scope="module")
def tiny() -> list[Layer]:
    return layers(tiny=True)


@pytest.mark.parametrize("index", range(9))
def test_runs_count_what_plans_say(tiny: list[Layer], index: int) -> None:
    for flags in CONFIGURATIONS.values():
        check(tiny[index], *flags)


def test_a_difference_is_told(tiny: list[Layer], monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = planned(tiny[0], "--fusion=none")
    monkeypatch.setattr("bench.reach.executed", lambda *_: wrong)
    with pytest.raises(SystemExit, match=r"planned .* counted"):
        check(tiny[0], "--fusion=auto")


def test_fusion_reaches_further_at_each_level(tiny: list[Layer]) -> None:
    for layer in tiny:
        none, ops, auto = (planned(layer, f"--fusion={level}") for level in ("none", "ops", "auto"))
        classic = planned(layer, "--rules=linear")
        assert auto.kernels < ops.kernels <= none.kernels
        assert auto.kernels <= classic.kernels
        assert auto.boundary_bytes < ops.boundary_bytes <= none.boundary_bytes
        assert auto.boundary_bytes <= classic.boundary_bytes
        # What blocking re-reads comes on top of what crosses; of slices less may be read.
        assert auto.streamed_bytes > 0


def test_a_layer_of_many_tokens_is_three_kernels(tiny: list[Layer]) -> None:
    # Beside the look-up of cosines and sines: projections; attention; what follows it. Of a mixture
    # of experts the experts are one more, and the third goes on from the attention if asked to.
    llama, newest, mixtral = tiny[0], tiny[2], tiny[5]
    for layer in (llama, newest):
        assert planned(layer).kernels == 4, layer.name
        assert planned(layer, "--attention-chains").kernels == 3, layer.name
    assert planned(mixtral).kernels == 5
    assert planned(mixtral, "--attention-chains").kernels == 4


def test_the_table_has_every_layer(tiny: list[Layer]) -> None:
    assert len(tiny) == 9  # as many as are run above
    lines = list(rows(tiny=True, run=False))
    assert len({line.count("|") for line in lines}) == 1
    for layer in tiny:
        assert sum(layer.name in line for line in lines) == 1
