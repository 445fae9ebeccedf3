"""Trees: depths and distances, against a search written out and against networkx."""

import networkx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.positions.trees import DISCONNECTED, OUTSIDE, Trees, depths, distances

# The keys to the cabinet are there: 'keys' hangs on 'there', 'cabinet' on 'keys' …
SENTENCE = [1, 5, 4, 4, 1, 5, 5]  # The keys to the cabinet there are; 'there' is the root


@st.composite
def forests(draw: st.DrawFn) -> list[int]:
    """The heads of up to nine words, in any order, with one root or more."""
    size = draw(st.integers(1, 9))
    order = draw(st.permutations(range(size)))
    heads = [0] * size
    for at, word in enumerate(order):
        heads[word] = order[draw(st.integers(0, at))]  # itself: a root
    return heads


def way_up(heads: list[int], word: int) -> list[int]:
    way = [word]
    while heads[way[-1]] != way[-1]:
        way.append(heads[way[-1]])
    return way


@given(forests())
@settings(max_examples=50, deadline=None)
def test_depths_and_distances_are_those_of_a_search(heads: list[int]) -> None:
    graph = networkx.Graph()
    graph.add_nodes_from(range(len(heads)))
    graph.add_edges_from(enumerate(heads))
    lengths = dict(networkx.all_pairs_shortest_path_length(graph))
    deep, found = depths(torch.tensor([heads]))[0], distances(torch.tensor([heads]), True)[0]
    plain = distances(torch.tensor([heads]), False)[0]
    for i in range(len(heads)):
        assert deep[i] == len(way_up(heads, i)) - 1
        for j in range(len(heads)):
            if j not in lengths[i]:
                expected = unordered = DISCONNECTED
            elif j in way_up(heads, i) or i in way_up(heads, j):
                expected = unordered = int(deep[j] - deep[i])
                assert abs(expected) == lengths[i][j]
            else:
                unordered = lengths[i][j]
                expected = unordered if j > i else -unordered
            assert (found[i, j], plain[i, j]) == (expected, unordered)


def test_rows_of_a_batch_do_not_know_each_other() -> None:
    rows = torch.tensor([[0, 0, 1, 2], [3, 3, 3, 3]])
    for ordered in (True, False):
        together = distances(rows, ordered)
        for at, row in enumerate(rows):
            assert torch.equal(together[at], distances(row[None], ordered)[0])


def test_pieces_stand_where_their_words_do() -> None:
    words = torch.tensor([[OUTSIDE, 0, 1, 1, 2, 3, 4, 4, 4, 5, 6, OUTSIDE]])
    trees = Trees(words, torch.tensor([SENTENCE]))
    assert trees.depths.tolist() == [[OUTSIDE, 2, 1, 1, 3, 3, 2, 2, 2, 0, 1, OUTSIDE]]
    of_words = distances(torch.tensor([SENTENCE]), True)[0]
    for i, one in enumerate(words[0].tolist()):
        for j, other in enumerate(words[0].tolist()):
            outside = OUTSIDE in (one, other)
            expected = DISCONNECTED if outside else int(of_words[one, other])
            assert trees.ordered_distances[0, i, j] == expected
    # keys are two steps from are, whatever stands between them
    assert (of_words[1, 6], of_words[6, 1], of_words[1, 4], of_words[4, 1]) == (2, -2, 1, -1)


@pytest.mark.parametrize("ordered", [True, False])
def test_a_cycle_ends_all_the_same(ordered: bool) -> None:
    assert distances(torch.tensor([[1, 2, 0]]), ordered).shape == (1, 3, 3)


def test_two_trees_of_a_row_are_apart() -> None:
    found: Tensor = distances(torch.tensor([[0, 0, 2, 2]]), True)[0]
    assert found.tolist()[0] == [0, 1, DISCONNECTED, DISCONNECTED]
