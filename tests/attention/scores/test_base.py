"""The contract of recurrent attention scores: every kind against its equation."""

import math

import pytest
import torch

from regard.attention.masks import AttentionMask
from regard.attention.recurrent import RecurrentCrossAttention
from regard.attention.scores.base import ScoreSpec
from regard.config import kinds

KINDS = [kind for kind in kinds("regard.attention.scores") if kind != "none"]
B, T, S, D = 2, 3, 5, 4


def cross_attention(kind: str) -> RecurrentCrossAttention:
    torch.manual_seed(0)
    score = ScoreSpec.model_validate(kind).build(D)
    assert score is not None
    return RecurrentCrossAttention(score)


def matrix_times_vector(matrix: list[list[float]], vector: list[float]) -> list[float]:
    return [math.fsum(m * x for m, x in zip(row, vector, strict=True)) for row in matrix]


def dot(one: list[float], other: list[float]) -> float:
    return math.fsum(a * b for a, b in zip(one, other, strict=True))


def by_the_equation(kind: str, weights: dict[str, list], s: list[float], a: list[float]) -> float:
    match kind:
        case "dot":
            return dot(s, a)
        case "general":
            return dot(s, matrix_times_vector(weights["w_k.weight"], a))
        case "concat":
            halves = zip(weights["w_q.weight"], weights["w_k.weight"], strict=True)
            inner = matrix_times_vector([[*left, *right] for left, right in halves], [*s, *a])
        case "additive":
            projected = (
                matrix_times_vector(weights["w_q.weight"], s),
                matrix_times_vector(weights["w_k.weight"], a),
            )
            inner = [sum(terms) for terms in zip(*projected, weights["w_q.bias"], strict=True)]
    return dot(weights["v"], [math.tanh(x) for x in inner])


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_match_equation(kind):
    cross = cross_attention(kind)
    weights = {n: p.detach().tolist() for n, p in cross.attention.score.named_parameters()}
    queries, source = torch.randn(B, T, D), torch.randn(B, S, D)
    token_mask = torch.tensor([[True] * S, [True] * 3 + [False] * 2])
    outputs = cross(
        queries, cross.project_keys_values(source), AttentionMask.cross(T, token_mask)
    ).tolist()
    for row in range(B):
        length = int(token_mask[row].sum())
        states = source[row, :length].tolist()
        for t in range(T):
            s = queries[row, t].tolist()
            e = [math.exp(by_the_equation(kind, weights, s, a)) for a in states]
            expected = [sum(e[j] / sum(e) * states[j][d] for j in range(length)) for d in range(D)]
            assert outputs[row][t] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_equal_attend_with_weights(kind):
    cross = cross_attention(kind)
    queries, source = torch.randn(B, T, D), torch.randn(B, S, D)
    token_mask = torch.tensor([[True] * S, [True] * 3 + [False] * 2])
    memory, mask = cross.project_keys_values(source), AttentionMask.cross(T, token_mask)
    q = cross.attention.score.query(queries)[:, None]
    outputs, weights = cross.attention.attend_with_weights(
        q, memory.keys, memory.values, mask, cross.position
    )
    torch.testing.assert_close(outputs[:, 0], cross(queries, memory, mask))
    assert weights.shape == (B, 1, T, S)
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, 1, T))
    assert not weights[1, ..., 3:].any()
    scores = cross.attention.scores(q, memory.keys, mask, cross.position)
    torch.testing.assert_close(scores.softmax(-1), weights)


def test_none_builds_no_score():
    assert ScoreSpec.model_validate("none").build(D) is None


def test_scores_are_not_transformer_attention_kinds():
    assert not {"recurrent", "scores", *KINDS} & set(kinds("regard.attention"))
