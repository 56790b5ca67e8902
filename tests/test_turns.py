"""The order of stage instances: a first page before all, then the longest way; turns are kept for the best."""

import threading
from contextlib import ExitStack

import pytest

from pipeline.running.dag import Dag, StageNode
from pipeline.running.turns import Turns, ranked

# read -> words -> page; read -> long -> score; other -> short
READS = {"read": (), "other": (), "words": ("read",), "page": ("words",), "short": ("other",), "long": ("read",),
         "score": ("long",)}
DAG = Dag(nodes=tuple(StageNode(name=name, upstream=upstream, first=name == "page", gpu=name in ("long", "short"))
                      for name, upstream in READS.items()))
SECONDS = {"long": 50.0, "short": 5.0, "words": 3.0}


def turns_of(at_once=1, devices=0, passed=()):
    return Turns(DAG, SECONDS, at_once, devices, lambda node: int(node.gpu and devices > 0),
                 lambda node: node.name in passed)


def order(turns, names):
    """Return the order in which ``names`` had their turns, all of which ask at once, in an order of their own."""
    found, threads = [], []

    def ask(name):
        with turns.turn(DAG[name]):
            found.append(name)

    for name in names:
        threads.append(threading.Thread(target=ask, args=(name,)))
        threads[-1].start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    return found


def test_what_a_first_page_needs_goes_first_then_the_longest_way():
    assert [node.name for node in ranked(DAG, SECONDS)] == ["read", "words", "page", "long", "other", "short", "score"]
    without = DAG.subset(["score", "short"])
    assert [node.name for node in ranked(without, {})] == ["read", "other", "long", "short", "score"]
    assert order(turns_of(), ["short", "score", "other", "page", "long", "words", "read"]) == [
        "read", "words", "page", "long", "other", "short", "score"]


def test_a_turn_is_kept_for_the_best_though_another_asks_first():
    turns, had = turns_of(), threading.Event()

    def ask():
        with turns.turn(DAG["other"]):
            had.set()

    thread = threading.Thread(target=ask)
    with turns.turn(DAG["read"]):
        thread.start()
        assert not had.wait(0.2)
    assert not had.wait(0.2)  # kept for `words`, which has not asked yet
    for name in ("words", "page", "long"):
        with turns.turn(DAG[name]):
            assert not had.is_set()
    assert had.wait(20)
    thread.join()


def test_as_many_at_a_time_as_there_are_turns_and_devices():
    turns = turns_of(at_once=3, devices=1)
    with ExitStack() as held:
        for name in ("read", "other"):
            turns.ended(DAG[name], done=True)
        held.enter_context(turns.turn(DAG["long"]))
        held.enter_context(turns.turn(DAG["words"]))  # it needs no device
        waiting = threading.Thread(target=lambda: order(turns, ["short"]))
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
    waiting.join(20)
    assert not waiting.is_alive()


def test_what_will_not_ask_and_what_has_failed_keep_nobody_waiting():
    assert order(turns_of(passed={"read", "words", "page"}), ["other", "short"]) == ["other", "short"]
    turns = turns_of()
    with pytest.raises(OSError), turns.turn(DAG["read"]):
        raise OSError
    assert order(turns, ["other", "short"]) == ["other", "short"]
    assert order(turns, ["read", "words"]) == ["read", "words"]  # once more


def test_after_a_stop_nobody_waits():
    turns = turns_of()
    turns.stop()
    assert order(turns, ["score"]) == ["score"]
