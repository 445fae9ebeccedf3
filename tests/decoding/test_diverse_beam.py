"""Diverse beam search: groups choose different tokens; one group is plain beam search."""

import numpy as np
import pytest
from tests.decoding.test_beam import END, FIRST, Random, RandomState
from tests.decoding.test_lexical_constraints import assert_close

from regard.decoding.beam import beam_search
from regard.decoding.diverse_beam import DiverseBeam
from regard.errors import ConfigError


def test_groups_start_with_different_tokens() -> None:
    lines, first = np.array([8]), np.array([FIRST])
    (diverse,) = beam_search(
        Random(), RandomState(lines), first, END, [6], 4, select=DiverseBeam(4, 1e6)
    )
    (one_group,) = beam_search(
        Random(), RandomState(lines), first, END, [6], 4, select=DiverseBeam(1, 1e6)
    )
    (plain,) = beam_search(Random(), RandomState(lines), first, END, [6], 4)
    assert_close(one_group, plain)
    first_tokens = {each.ids[0] if each.ids else END for each in diverse}
    assert len(first_tokens) == len(diverse)
    with pytest.raises(ConfigError, match="groups"):
        beam_search(Random(), RandomState(lines), first, END, [6], 4, select=DiverseBeam(3))
