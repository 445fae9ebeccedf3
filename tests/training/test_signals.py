"""Signals request an interruption."""

import signal
import threading

import pytest

from regard.training.signals import Interruption, catch_interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_requests_an_interruption(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with catch_interrupts() as interruption:
        assert not interruption.requested
        signal.raise_signal(number)
        assert interruption.requested
    assert signal.getsignal(number) is before


def test_a_second_sigint_raises_keyboard_interrupt() -> None:
    def insist() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with catch_interrupts(), pytest.raises(KeyboardInterrupt):
        insist()


def test_a_repeated_sigterm_raises_nothing() -> None:
    with catch_interrupts() as interruption:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert interruption.requested


def test_signal_handlers_are_unchanged_outside_the_main_thread() -> None:
    before, interruptions = signal.getsignal(signal.SIGINT), list[Interruption]()

    def work() -> None:
        with catch_interrupts() as interruption:
            interruptions.append(interruption)
            assert signal.getsignal(signal.SIGINT) is before

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not interruptions[0].requested
