"""KV cache: eviction, truncation and reordering."""

import torch

from regard.attention.kv_cache import KVCache


def random_cache(rows: int, length: int) -> KVCache:
    return KVCache(torch.randn(rows, 1, length, 2), torch.randn(rows, 1, length, 2))


def test_offset_counts_evicted_tokens() -> None:
    cache = random_cache(1, 6).last(4)
    assert cache.offset == 2
    assert torch.equal(cache.truncate(5).keys, cache.keys[:, :, :3])
    assert cache.append(cache).offset == 2
    assert cache.reorder(torch.tensor([0])).offset == 2


def test_rows_are_reordered() -> None:
    cache = random_cache(3, 4)
    swapped = cache.reorder(torch.tensor([2, 0, 0]))
    assert torch.equal(swapped.keys[0], cache.keys[2])
    assert torch.equal(swapped.values[2], cache.values[0])
