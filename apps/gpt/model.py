"""The language model of apps/gpt in PyTorch: what train.py trains and reference.py runs in double.

A decoder of RMSNorm, grouped-query attention with rotary positions, and a SwiGLU network (the form of Llama 2 and 3),
over single characters.
"""

import dataclasses
import struct

import torch
import torch.nn.functional as F

VOCABULARY = 96
MAGIC = b"KILNGPT1"


@dataclasses.dataclass
class Shape:
    layers: int = 4
    width: int = 128
    heads: int = 4
    kv_heads: int = 2
    head: int = 32
    hidden: int = 384
    vocabulary: int = VOCABULARY
    context: int = 256
    eps: float = 1e-5
    rope: float = 10000.0


def tokens_of(text):
    """Printable ASCII from the space on, 0 to 94; a line's end is 95. Other characters are left out."""
    return [95 if c == "\n" else ord(c) - 32 for c in text if c == "\n" or 32 <= ord(c) < 127]


def text_of(tokens):
    return "".join("\n" if t == 95 else chr(t + 32) for t in tokens)


def tensors_of(shape):
    """Names and extents, outermost first, in the order in which the weights file holds them; matrices as
    (inputs, outputs)."""
    q, kv = shape.heads * shape.head, shape.kv_heads * shape.head
    yield "embedding", (shape.vocabulary, shape.width)
    for i in range(shape.layers):
        yield f"{i}.attention_norm", (shape.width,)
        yield f"{i}.q", (shape.width, q)
        yield f"{i}.k", (shape.width, kv)
        yield f"{i}.v", (shape.width, kv)
        yield f"{i}.o", (q, shape.width)
        yield f"{i}.mlp_norm", (shape.width,)
        yield f"{i}.gate", (shape.width, shape.hidden)
        yield f"{i}.up", (shape.width, shape.hidden)
        yield f"{i}.down", (shape.hidden, shape.width)
    yield "norm", (shape.width,)


def initial_weights(shape):
    weights = {}
    for name, extents in tensors_of(shape):
        if len(extents) == 1:
            weights[name] = torch.ones(extents)
        else:
            # The products that add to the residual are smaller, so that it does not grow with the depth (GPT-2).
            size = 0.02 if name == "embedding" else extents[0] ** -0.5
            weights[name] = torch.randn(extents) * size / ((2 * shape.layers) ** 0.5 if name[-2:] in (".o", "wn") else 1)
    return weights


def rms_norm(x, gamma, eps):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * gamma


def rotations(shape, count, dtype):
    """cos and sin of each position's angles, (count, head / 2)."""
    frequency = shape.rope ** (-torch.arange(0, shape.head, 2, dtype=torch.float64) / shape.head)
    angle = torch.arange(count, dtype=torch.float64)[:, None] * frequency
    return angle.cos().to(dtype), angle.sin().to(dtype)


def rotate(x, cos, sin):
    """x(batch, head, position, head dim): element c turns with element c + head dim / 2 (Su et al. 2021, as in Llama)."""
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def final_state(shape, weights, tokens):
    """What the embedding is multiplied with: (batch, position, width), after the last norm."""
    batch, count = tokens.shape
    x = weights["embedding"][tokens]
    cos, sin = rotations(shape, count, x.dtype)
    heads = lambda t, n: t.view(batch, count, n, shape.head).transpose(1, 2)
    group = shape.heads // shape.kv_heads
    for i in range(shape.layers):
        w = lambda name: weights[f"{i}.{name}"]
        h = rms_norm(x, w("attention_norm"), shape.eps)
        q = rotate(heads(h @ w("q"), shape.heads), cos, sin)
        k = rotate(heads(h @ w("k"), shape.kv_heads), cos, sin).repeat_interleave(group, 1)
        v = heads(h @ w("v"), shape.kv_heads).repeat_interleave(group, 1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + y.transpose(1, 2).reshape(batch, count, -1) @ w("o")
        h = rms_norm(x, w("mlp_norm"), shape.eps)
        x = x + (F.silu(h @ w("gate")) * (h @ w("up"))) @ w("down")
    return rms_norm(x, weights["norm"], shape.eps)


def logits(shape, weights, tokens):
    return final_state(shape, weights, tokens) @ weights["embedding"].T


def save(path, shape, weights):
    """Little-endian: MAGIC, the eight numbers of Shape as int32, eps and rope as float32, the tensors as bfloat16."""
    with open(path, "wb") as out:
        s = dataclasses.astuple(shape)
        out.write(MAGIC + struct.pack("<8i2f", *s))
        for name, extents in tensors_of(shape):
            assert tuple(weights[name].shape) == extents
            out.write(bytes(weights[name].detach().to(torch.bfloat16).contiguous().view(torch.uint8).flatten().tolist()))


def load(path, dtype):
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == MAGIC, path
    shape = Shape(*struct.unpack_from("<8i2f", data, 8))
    weights, at = {}, 8 + 40
    for name, extents in tensors_of(shape):
        count = 2 * torch.Size(extents).numel()
        bits = torch.frombuffer(bytearray(data[at : at + count]), dtype=torch.bfloat16)
        weights[name] = bits.view(extents).to(dtype)
        at += count
    assert at == len(data), path
    return shape, weights
