"""Labels of synthetic tasks follow from their rows."""

import torch

from regard.lab.tasks import which_first


def test_which_first_depends_on_order_alone() -> None:
    rows = which_first(9, 12, 0)
    one, two = ((rows.ids == symbol).long() for symbol in (1, 2))
    assert one.sum(1).eq(1).all()
    assert two.sum(1).eq(1).all()
    assert rows.ids[:, 0].eq(0).all()
    assert rows.labels.equal((one.argmax(1) < two.argmax(1)).long())
    # For every row there is one with the same symbols and the other label.
    half = len(rows.ids) // 2
    assert torch.equal(rows.ids[:half].sort(1).values, rows.ids[half:].sort(1).values)
    assert torch.equal(rows.labels[:half], 1 - rows.labels[half:])
