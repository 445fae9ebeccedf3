"""Trees: depths and distances against paths to the root and networkx."""

import networkx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.positions.trees import DISCONNECTED, OUTSIDE, Trees, depths, distances

# The keys to the cabinet are there: the head of 'keys' is 'there', that of 'cabinet' 'keys' …
SENTENCE = [1, 5, 4, 4, 1, 5, 5]  # The keys to the cabinet there are; 'there' is the root


@st.composite
def forests(draw: st.DrawFn) -> list[int]:
    """Generate the heads of up to nine words, in any order, with one or more roots."""
    size = draw(st.integers(1, 9))
    order = draw(st.permutations(range(size)))
    heads = [0] * size
    for index, word in enumerate(order):
        heads[word] = order[draw(st.integers(0, index))]  # itself: a root
    return heads


def path_to_root(heads: list[int], word: int) -> list[int]:
    path = [word]
    while heads[path[-1]] != path[-1]:
        path.append(heads[path[-1]])
    return path


@given(forests())
@settings(max_examples=50, deadline=None)
def test_depths_and_distances_equal_networkx(heads: list[int]) -> None:
    graph = networkx.Graph()
    graph.add_nodes_from(range(len(heads)))
    graph.add_edges_from(enumerate(heads))
    lengths = dict(networkx.all_pairs_shortest_path_length(graph))
    tree_depths, ordered_distances = (
        depths(torch.tensor([heads]))[0],
        distances(torch.tensor([heads]), True)[0],
    )
    unordered_distances = distances(torch.tensor([heads]), False)[0]
    for i in range(len(heads)):
        assert tree_depths[i] == len(path_to_root(heads, i)) - 1
        for j in range(len(heads)):
            if j not in lengths[i]:
                expected = unordered = DISCONNECTED
            elif j in path_to_root(heads, i) or i in path_to_root(heads, j):
                expected = unordered = int(tree_depths[j] - tree_depths[i])
                assert abs(expected) == lengths[i][j]
            else:
                unordered = lengths[i][j]
                expected = unordered if j > i else -unordered
            assert (ordered_distances[i, j], unordered_distances[i, j]) == (expected, unordered)


def test_rows_are_independent() -> None:
    rows = torch.tensor([[0, 0, 1, 2], [3, 3, 3, 3]])
    for ordered in (True, False):
        together = distances(rows, ordered)
        for index, row in enumerate(rows):
            assert torch.equal(together[index], distances(row[None], ordered)[0])


def test_tokens_have_the_position_of_their_word() -> None:
    words = torch.tensor([[OUTSIDE, 0, 1, 1, 2, 3, 4, 4, 4, 5, 6, OUTSIDE]])
    trees = Trees(words, torch.tensor([SENTENCE]))
    assert trees.depths.tolist() == [[OUTSIDE, 2, 1, 1, 3, 3, 2, 2, 2, 0, 1, OUTSIDE]]
    of_words = distances(torch.tensor([SENTENCE]), True)[0]
    for i, one in enumerate(words[0].tolist()):
        for j, other in enumerate(words[0].tolist()):
            outside = OUTSIDE in (one, other)
            expected = DISCONNECTED if outside else int(of_words[one, other])
            assert trees.ordered_distances[0, i, j] == expected
    # 'keys' is two steps from 'are', whatever words are between them
    assert (of_words[1, 6], of_words[6, 1], of_words[1, 4], of_words[4, 1]) == (2, -2, 1, -1)


@pytest.mark.parametrize("ordered", [True, False])
def test_cycle_terminates(ordered: bool) -> None:
    assert distances(torch.tensor([[1, 2, 0]]), ordered).shape == (1, 3, 3)


def test_trees_of_one_row_are_not_connected() -> None:
    first_row: Tensor = distances(torch.tensor([[0, 0, 2, 2]]), True)[0]
    assert first_row.tolist()[0] == [0, 1, DISCONNECTED, DISCONNECTED]
