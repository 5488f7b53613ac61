"""What the verifier and the drafters compute alike."""

import torch
from torch import Tensor
from torch.nn import functional

from specc.models.spec import DecoderSpec


def rms_norm(x: Tensor, weight: Tensor | None, epsilon: float) -> Tensor:
    """Root-mean-square norm over the last axis, in the dtype of `x`."""
    return functional.rms_norm(x, (x.shape[-1],), weight, epsilon)


def rope_tables(spec: DecoderSpec, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosines and sines f32 `[context, head_dim / 2]`."""
    cos, sin = spec.rope.tables(spec.context)
    return torch.from_numpy(cos).to(device), torch.from_numpy(sin).to(device)


def split_qkv(spec: DecoderSpec, rows: Tensor, dim: int = -1) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value of packed rows (or columns) along `dim`."""
    a = spec.attention
    sizes = [a.heads * a.head_dim, a.kv_heads * a.head_dim, a.kv_heads * a.head_dim]
    query, key, value = torch.split_with_sizes(rows, sizes, dim)
    return query, key, value


def by_head(rows: Tensor, head_dim: int) -> Tensor:
    """`[B, heads, S, head_dim]` of `[B, S, heads * head_dim]`."""
    return rows.reshape(*rows.shape[:-1], -1, head_dim).transpose(-2, -3)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding of `[B, heads, S, head_dim]` by the tables' rows of the S positions; computed in fp32."""
    low, high = x.float().chunk(2, -1)
    return torch.cat([low * cos - high * sin, high * cos + low * sin], -1).to(x.dtype)


def attend(query: Tensor, keys: Tensor, values: Tensor, scale: float, window: int | None = None) -> Tensor:
    """Causal grouped-query attention of the last S of T positions, `[B, S, heads * head_dim]`.

    query: `[B, heads, S, head_dim]`; keys, values: `[B, kv_heads, T, head_dim]`.
    """
    batch, heads, width, size = query.shape
    groups, length = keys.shape[1], keys.shape[2]
    if width == 1 and (window is None or length <= window):
        # one query a head: the heads of a group become rows, and the keys are read once a group
        grouped = query.reshape(batch, groups, heads // groups, size)
        mixed = functional.scaled_dot_product_attention(grouped, keys, values, scale=scale)
        return mixed.reshape(batch, 1, heads * size)
    mask = causal_mask(width, length, window, query.device)
    mixed = functional.scaled_dot_product_attention(query, keys, values, mask, scale=scale, enable_gqa=True)
    return mixed.transpose(1, 2).reshape(batch, width, heads * size)


def causal_mask(width: int, length: int, window: int | None, device: torch.device) -> Tensor:
    """bool[S, T]: which of T positions each of the last S sees."""
    rows = torch.arange(length - width, length, device=device)[:, None]
    columns = torch.arange(length, device=device)[None]
    mask = columns <= rows
    return mask if window is None else mask & (columns > rows - window)
