"""Signals as a wish to stop."""

import signal
import threading

import pytest

from regard.training.signals import Interruption, catch_interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_within_a_signal_only_asks(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with catch_interrupts() as interruption:
        assert not interruption.requested
        signal.raise_signal(number)
        assert interruption.requested
    assert signal.getsignal(number) is before


def test_asked_twice_it_ends_at_once() -> None:
    def insist() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with catch_interrupts(), pytest.raises(KeyboardInterrupt):
        insist()


def test_a_cluster_may_repeat_itself() -> None:
    with catch_interrupts() as interruption:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert interruption.requested


def test_elsewhere_than_in_the_main_thread_signals_are_left_alone() -> None:
    before, found = signal.getsignal(signal.SIGINT), list[Interruption]()

    def work() -> None:
        with catch_interrupts() as interruption:
            found.append(interruption)
            assert signal.getsignal(signal.SIGINT) is before

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not found[0].requested
