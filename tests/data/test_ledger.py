"""The ledger: counts, table, JSON, and the limit on dropped lines."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from regard.data.ledger import DUPLICATE, EVAL_OVERLAP, FIRST, Ledger
from regard.data.records import Location, Rejected
from regard.errors import DataError, RunError


def rejected(why: str, line: int = 1, found: str = "") -> Rejected:
    return Rejected(Location("a.tsv", line), why, found)


def printed(ledger: Ledger, width: int = 120) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(ledger.table())
    return captured.get()


def a_ledger() -> Ledger:
    ledger = Ledger()
    ledger.keep("train", "a.tsv", 90)
    for line in range(1, 8):
        ledger.drop("train", "a.tsv", rejected("empty side", line, "nothing"), texts=("é\n", ""))
    ledger.drop("train", "a.tsv", rejected("too long", 9, "12,345 characters"))
    ledger.move("train", "a.tsv", rejected(DUPLICATE, 10), n=2)
    ledger.keep("dev", "[b]", 1234)
    return ledger


ACTS = st.lists(
    st.tuples(
        st.sampled_from(["keep", "drop", "move"]),
        st.sampled_from(["train", "dev"]),
        st.sampled_from(["a", "b"]),
        st.sampled_from(["too long", "fuzzy", DUPLICATE]),
        st.integers(1, 9),
    )
)


@settings(deadline=None)
@given(ACTS)
def test_every_line_is_kept_or_dropped(acts: list[tuple[str, str, str, str, int]]) -> None:
    ledger, read, kept = Ledger(), 0, 0
    for act, part, source, why, n in acts:
        if act == "keep":
            ledger.keep(part, source, n)
        elif act == "drop":
            ledger.drop(part, source, rejected(why), n)
        else:
            ledger.move(part, source, rejected(why), n)
        read += n * (act != "move")
        kept += n * {"keep": 1, "drop": 0, "move": -1}[act]
    tallies = [tally for _, _, tally in ledger.tallies()]
    assert sum(tally.read for tally in tallies) == read
    assert sum(tally.kept for tally in tallies) == kept
    for tally in tallies:
        assert tally.read == tally.kept + sum(cause.count for cause in tally.dropped.values())
    assert Ledger.from_json(ledger.to_json()).to_json() == ledger.to_json()


def test_first_lines_of_a_cause_are_kept() -> None:
    ((_, _, tally), _) = a_ledger().tallies()
    cause = tally.dropped["empty side"]
    assert (tally.read, tally.kept, cause.count) == (98, 88, 7)
    assert [example.line for example in cause.first] == list(range(1, FIRST + 1))
    assert cause.first[0].excerpt == r"'é\n' | ''"


def test_table_has_one_line_for_each_cause() -> None:
    lines = [" ".join(line.split()) for line in printed(a_ledger()).splitlines()]
    assert lines == [
        "split source read kept dropped",
        "train a.tsv 98 88 10",
        "empty side, first line 1: nothing 7",
        "duplicate, first line 10 2",
        "too long, first line 9: 12,345 characters 1",
        "dev [b] 1,234 1,234 0",
    ]


def test_table_leaves_out_the_folder_of_all_sources() -> None:
    ledger = Ledger()
    for name in ("/data/one/train.tsv", "/data/other/train.tsv"):
        ledger.keep("train", name, 1)
    lines = printed(ledger).splitlines()[1:]
    assert [line.split()[1] for line in lines] == ["one/train.tsv", "other/train.tsv"]


def test_narrow_table_truncates_nothing() -> None:
    narrow, wide = (Counter(printed(a_ledger(), width)) for width in (60, 120))
    assert all(narrow[each] == wide[each] for each in wide if not each.isspace())


def test_too_many_dropped_lines_error_names_cause_and_setting() -> None:
    ledger = a_ledger()
    ledger.enforce(0.1)
    with pytest.raises(DataError) as caught:
        ledger.enforce(0.05)
    assert str(caught.value) == (
        "a.tsv: 8.2% of the 98 lines for train are dropped and at most 5.0% may be; most (7) for "
        "empty side, first a.tsv, line 1: nothing: fix them, or change data.filters.max_dropped."
    )
    ledger.drop("dev", "[b]", rejected("length ratio"), 2000)
    with pytest.raises(DataError, match=r"data\.filters\.max_ratio or data\.filters\.max_dropped"):
        ledger.enforce(0.1)


def test_duplicates_do_not_count_as_dropped() -> None:
    ledger = Ledger()
    ledger.keep("train", "a", 60)
    ledger.drop("train", "a", rejected(DUPLICATE), 20)
    ledger.drop("train", "a", rejected(EVAL_OVERLAP), 20)
    ledger.enforce(0.0)
    assert ledger.drop_rate == 0
    ledger.drop("train", "a", rejected("fuzzy"), 100)
    assert ledger.drop_rate == 0.5


def test_source_without_kept_lines_is_refused() -> None:
    ledger = Ledger()
    ledger.drop("train", "a", rejected(EVAL_OVERLAP), 20)
    with pytest.raises(
        DataError, match=r"none of the 20 lines for train is left; .* in dev or test"
    ):
        ledger.enforce(1.0)
    empty = Ledger()
    empty.keep("dev", "b", 0)
    with pytest.raises(DataError, match="b: none of the 0 lines for dev is left; there is no text"):
        empty.enforce(1.0)


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"train": 1}', '{"train": {"a": {"read": 9, "kept": 1, "dropped": {}}}}'],
)
def test_invalid_ledger_json_is_refused(text: str) -> None:
    with pytest.raises(RunError, match="the ledger cannot be read"):
        Ledger.from_json(text)
