"""Models of the package transformers with small configurations and random weights.

Small in every size but not in kind: grouped heads, sliding windows, experts and whatever else the
family has are there, so that what the backend makes of them is what it makes of the real ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers

VOCABULARY = 128
BATCH = 2

Inputs = dict[str, torch.Tensor]


@dataclass(frozen=True)
class SmallModel:
    """A family, and how its inputs are made for a length."""

    name: str
    make: Callable[[], torch.nn.Module]
    inputs: Callable[[int], Inputs]
    lengths: tuple[int, ...] = (9, 17, 40)
    """To compare at; images have one."""
    generates: bool = False


def _tokens(length: int) -> Inputs:
    generator = torch.Generator().manual_seed(length)
    return {"input_ids": torch.randint(3, VOCABULARY, (BATCH, length), generator=generator)}


def _masked_tokens(length: int) -> Inputs:
    mask = torch.ones(BATCH, length, dtype=torch.long)
    mask[1, length // 2 :] = 0
    return _tokens(length) | {"attention_mask": mask}


def _pixels(length: int) -> Inputs:
    generator = torch.Generator().manual_seed(length)
    return {"pixel_values": torch.randn(BATCH, 3, 32, 32, generator=generator)}


def _decoder_inputs(length: int) -> Inputs:
    generator = torch.Generator().manual_seed(length)
    return _tokens(length) | {
        "encoder_hidden_states": torch.randn(BATCH, 12, 64, generator=generator)
    }


def _decoder(name: str, **more: Any) -> Callable[[], torch.nn.Module]:
    """A causal language model of a family that spells its configuration like Llama's."""

    def make() -> torch.nn.Module:
        config = getattr(transformers, f"{name}Config")(
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            vocab_size=VOCABULARY,
            max_position_embeddings=128,
            **more,
        )
        return getattr(transformers, f"{name}ForCausalLM")(config)

    return make


def _gpt2() -> torch.nn.Module:
    config = transformers.GPT2Config(
        n_embd=64, n_layer=2, n_head=4, n_positions=128, vocab_size=VOCABULARY,
        bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)


def _encoder(name: str, **more: Any) -> Callable[[], torch.nn.Module]:
    def make() -> torch.nn.Module:
        sizes = {
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
        }
        config = getattr(transformers, f"{name}Config")(**sizes | more)
        return getattr(transformers, f"{name}Model")(config)

    return make


def _distilbert() -> torch.nn.Module:
    config = transformers.DistilBertConfig(
        dim=64, hidden_dim=128, n_layers=2, n_heads=4, vocab_size=VOCABULARY,
        max_position_embeddings=128,
    )  # fmt: skip
    return transformers.DistilBertModel(config)


def _whisper_decoder() -> torch.nn.Module:
    config = transformers.WhisperConfig(
        d_model=64, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=128,
        vocab_size=VOCABULARY, max_target_positions=128, pad_token_id=0, bos_token_id=1,
        eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    return transformers.models.whisper.modeling_whisper.WhisperDecoder(config)


_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
_TEXT = {"vocab_size": VOCABULARY, "max_position_embeddings": 130}
_IMAGE = {"image_size": 32, "patch_size": 8}

MODELS = {
    model.name: model
    for model in (
        SmallModel("Llama", _decoder("Llama"), _tokens, generates=True),
        SmallModel("Mistral", _decoder("Mistral", sliding_window=16), _tokens),
        SmallModel("Qwen2", _decoder("Qwen2"), _tokens),
        SmallModel("Qwen3", _decoder("Qwen3", head_dim=16), _tokens, generates=True),
        SmallModel(
            "Mixtral", _decoder("Mixtral", num_local_experts=4, num_experts_per_tok=2), _tokens
        ),
        SmallModel(
            "Qwen2-MoE",
            _decoder("Qwen2Moe", **_EXPERTS, shared_expert_intermediate_size=64),
            _tokens,
        ),
        SmallModel("GPT-2", _gpt2, _tokens, generates=True),
        SmallModel("BERT", _encoder("Bert", **_TEXT), _masked_tokens),
        SmallModel("DistilBERT", _distilbert, _masked_tokens),
        SmallModel("RoBERTa", _encoder("Roberta", **_TEXT), _masked_tokens),
        SmallModel("ViT", _encoder("ViT", **_IMAGE), _pixels, lengths=(1,)),
        SmallModel("CLIP text", _encoder("CLIPText", **_TEXT), _tokens),
        SmallModel("CLIP vision", _encoder("CLIPVision", **_IMAGE), _pixels, lengths=(1,)),
        SmallModel("Whisper decoder", _whisper_decoder, _decoder_inputs),
    )
}


def make(name: str) -> torch.nn.Module:
    """The model, seeded, ready for inference."""
    torch.manual_seed(0)
    transformers.logging.set_verbosity_error()
    return MODELS[name].make().eval()


def result(output: Any) -> torch.Tensor:
    """The logits or hidden states of a model's output."""
    return output[0] if isinstance(output, tuple) else next(iter(output.values()))
