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


@dataclass(frozen=True)
class Sizes:
    """What a model of any family is made with."""

    width: int = 64
    inner: int = 128
    """Of the feed-forward part."""
    layers: int = 2
    heads: int = 4
    key_heads: int = 2
    """Where a family shares keys and values among heads."""
    experts: int = 4
    expert_inner: int = 32
    vocabulary: int = 128
    positions: int = 128
    window: int = 16
    image: int = 32
    """Pixels of a side, in patches of 8."""
    source: int = 12
    """Length of what a decoder attends to beside its own tokens."""
    batch: int = 2


SMALL = Sizes()
BATCH = SMALL.batch

Inputs = dict[str, torch.Tensor]


@dataclass(frozen=True)
class SmallModel:
    """A family, and how a model and its inputs are made."""

    name: str
    make: Callable[[Sizes], torch.nn.Module]
    inputs_of: Callable[[Sizes, int], Inputs]
    lengths: tuple[int, ...] = (9, 17, 40)
    """To compare at; images have one."""
    generates: bool = False

    def inputs(self, length: int, sizes: Sizes = SMALL) -> Inputs:
        """What the model is called with."""
        return self.inputs_of(sizes, length)


def _tokens(sizes: Sizes, length: int) -> Inputs:
    generator = torch.Generator().manual_seed(length)
    shape = (sizes.batch, length)
    return {"input_ids": torch.randint(3, sizes.vocabulary, shape, generator=generator)}


def _masked_tokens(sizes: Sizes, length: int) -> Inputs:
    mask = torch.ones(sizes.batch, length, dtype=torch.long)
    mask[-1, length // 2 :] = 0
    return _tokens(sizes, length) | {"attention_mask": mask}


def _pixels(sizes: Sizes, length: int) -> Inputs:
    generator = torch.Generator().manual_seed(length)
    shape = (sizes.batch, 3, sizes.image, sizes.image)
    return {"pixel_values": torch.randn(shape, generator=generator)}


def _decoder_inputs(sizes: Sizes, length: int) -> Inputs:
    generator = torch.Generator().manual_seed(length)
    shape = (sizes.batch, sizes.source, sizes.width)
    return _tokens(sizes, length) | {
        "encoder_hidden_states": torch.randn(shape, generator=generator)
    }


def _decoder(name: str, more: Callable[[Sizes], dict[str, Any]] = lambda sizes: {}) -> Any:
    """A causal language model of a family that spells its configuration like Llama's."""

    def make(sizes: Sizes) -> torch.nn.Module:
        config = getattr(transformers, f"{name}Config")(
            hidden_size=sizes.width,
            intermediate_size=sizes.inner,
            num_hidden_layers=sizes.layers,
            num_attention_heads=sizes.heads,
            num_key_value_heads=sizes.key_heads,
            vocab_size=sizes.vocabulary,
            max_position_embeddings=sizes.positions,
            **more(sizes),
        )
        return getattr(transformers, f"{name}ForCausalLM")(config)

    return make


def _gpt2(sizes: Sizes) -> torch.nn.Module:
    config = transformers.GPT2Config(
        n_embd=sizes.width, n_layer=sizes.layers, n_head=sizes.heads,
        n_positions=sizes.positions, vocab_size=sizes.vocabulary, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)


def _encoder(name: str, more: Callable[[Sizes], dict[str, Any]]) -> Any:
    def make(sizes: Sizes) -> torch.nn.Module:
        config = getattr(transformers, f"{name}Config")(
            hidden_size=sizes.width,
            intermediate_size=sizes.inner,
            num_hidden_layers=sizes.layers,
            num_attention_heads=sizes.heads,
            **more(sizes),
        )
        return getattr(transformers, f"{name}Model")(config)

    return make


def _distilbert(sizes: Sizes) -> torch.nn.Module:
    config = transformers.DistilBertConfig(
        dim=sizes.width, hidden_dim=sizes.inner, n_layers=sizes.layers, n_heads=sizes.heads,
        vocab_size=sizes.vocabulary, max_position_embeddings=sizes.positions,
    )  # fmt: skip
    return transformers.DistilBertModel(config)


def _whisper_decoder(sizes: Sizes) -> torch.nn.Module:
    config = transformers.WhisperConfig(
        d_model=sizes.width, decoder_layers=sizes.layers, decoder_attention_heads=sizes.heads,
        decoder_ffn_dim=sizes.inner, vocab_size=sizes.vocabulary,
        max_target_positions=sizes.positions, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        decoder_start_token_id=1,
    )  # fmt: skip
    return transformers.models.whisper.modeling_whisper.WhisperDecoder(config)


def _text(sizes: Sizes) -> dict[str, Any]:
    # RoBERTa's positions begin behind those of padding.
    return {"vocab_size": sizes.vocabulary, "max_position_embeddings": sizes.positions + 2}


def _image(sizes: Sizes) -> dict[str, Any]:
    return {"image_size": sizes.image, "patch_size": 8}


def _experts(sizes: Sizes) -> dict[str, Any]:
    return {
        "num_experts": sizes.experts,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": sizes.expert_inner,
        "shared_expert_intermediate_size": 2 * sizes.expert_inner,
    }


def _mixtral(sizes: Sizes) -> dict[str, Any]:
    return {"num_local_experts": sizes.experts, "num_experts_per_tok": 2}


MODELS = {
    model.name: model
    for model in (
        SmallModel("Llama", _decoder("Llama"), _tokens, generates=True),
        SmallModel(
            "Mistral", _decoder("Mistral", lambda sizes: {"sliding_window": sizes.window}), _tokens
        ),
        SmallModel("Qwen2", _decoder("Qwen2"), _tokens),
        SmallModel(
            "Qwen3",
            _decoder("Qwen3", lambda sizes: {"head_dim": sizes.width // sizes.heads}),
            _tokens,
            generates=True,
        ),
        SmallModel("Mixtral", _decoder("Mixtral", _mixtral), _tokens),
        SmallModel("Qwen2-MoE", _decoder("Qwen2Moe", _experts), _tokens),
        SmallModel("GPT-2", _gpt2, _tokens, generates=True),
        SmallModel("BERT", _encoder("Bert", _text), _masked_tokens),
        SmallModel("DistilBERT", _distilbert, _masked_tokens),
        SmallModel("RoBERTa", _encoder("Roberta", _text), _masked_tokens),
        SmallModel("ViT", _encoder("ViT", _image), _pixels, lengths=(1,)),
        SmallModel("CLIP text", _encoder("CLIPText", _text), _tokens),
        SmallModel("CLIP vision", _encoder("CLIPVision", _image), _pixels, lengths=(1,)),
        SmallModel("Whisper decoder", _whisper_decoder, _decoder_inputs),
    )
}


def make(name: str, sizes: Sizes = SMALL) -> torch.nn.Module:
    """The model, seeded, ready for inference."""
    torch.manual_seed(0)
    transformers.logging.set_verbosity_error()
    return MODELS[name].make(sizes).eval()


def result(output: Any) -> torch.Tensor:
    """The logits or hidden states of a model's output."""
    return output[0] if isinstance(output, tuple) else next(iter(output.values()))
