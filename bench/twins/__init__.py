"""The suites' models as PyTorch modules, written the way a user of PyTorch would write them.

A twin is made of the weights of its ONNX model, by name, as tensors; `forward` takes the model's
inputs in their order and returns a tuple of its outputs in theirs. Where PyTorch has a function for
what the ONNX file spells out, the twin calls it.
"""
