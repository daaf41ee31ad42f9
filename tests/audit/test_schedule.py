"""Which cells come next, and what is said about the rest, on a clock that the tests turn."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest

from evenhand.audit import schedule as module
from evenhand.audit.plan import Question
from evenhand.audit.schedule import CellSchedule, Clock, OutOfTime, Running, Unit, duration

SIX, SEVEN, EIGHT = (Question("weat", f"weat-{number}") for number in (6, 7, 8))
GAP, NEUTRALITY = Question("nli-gap", "gender-occupation"), Question("nli-neutrality", "gender-occupation")
FRENCH = Question("nli-gap", "gender-activity-fr")
TEXT = Question("corpus-bias", "words")


class Now:
    """The time, in seconds; tests set it."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Now:
    clock = Now()
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=clock))
    return clock


def test_cells_are_grouped_by_view_and_query_but_those_of_vectors_stay_alone() -> None:
    cells = {"a": SIX, "b": GAP, "c": SEVEN, "d": FRENCH, "e": NEUTRALITY}
    made = CellSchedule.of([cells, {}, {"f": SIX}])
    assert made.units == [
        Unit(0, ("a",), (SIX,)),
        Unit(0, ("b", "e"), (GAP, NEUTRALITY)),
        Unit(0, ("c",), (SEVEN,)),
        Unit(0, ("d",), (FRENCH,)),
        Unit(1, (), ()),
        Unit(2, ("f",), (SIX,)),
    ]
    assert [unit.view for unit in made.units if unit.keys] == [
        "vectors",
        "inference",
        "vectors",
        "inference",
        "vectors",
    ]


def test_a_cell_lasts_as_long_as_its_question_else_its_view_else_any_cell() -> None:
    made = CellSchedule.of([])
    assert made.expected(SIX) is None
    assert made.rest([SIX]) is None
    assert made.rest([]) == 0
    made.learn(SIX, 1.0)
    made.learn(SIX, 4.0)
    made.learn(SEVEN, 10.0)
    assert made.expected(SIX) == 2.5
    assert made.expected(EIGHT) == 5.0
    assert made.expected(GAP) == 5.0
    made.learn(GAP, 25.0)
    assert [made.expected(one) for one in (SIX, SEVEN, EIGHT, GAP, NEUTRALITY, TEXT)] == [2.5, 10, 5, 25, 25, 10]
    assert [made.is_known(one) for one in (SIX, EIGHT, GAP, NEUTRALITY)] == [True, False, True, False]
    assert made.rest([SIX, EIGHT, GAP]) == 32.5


def test_a_process_stays_with_its_stage_then_takes_the_longest_free_one() -> None:
    made = CellSchedule.of([{"a": SIX}, {"b": SIX, "c": SEVEN}, {"d": GAP}])
    taken = made.next(0, [])
    assert taken == Unit(0, ("a",), (SIX,))
    assert made.next(0, []) == Unit(1, ("b",), (SIX,))  # of the two that are left it has most cells
    made.learn(GAP, 100.0)
    made.learn(SEVEN, 1.0)
    assert made.next(None, []) == Unit(2, ("d",), (GAP,))
    assert made.next(None, [1]) is None
    assert made.next(None, []) == Unit(1, ("c",), (SEVEN,))
    assert made.next(None, []) is None


def test_the_slowest_views_come_first_while_no_time_is_known() -> None:
    made = CellSchedule.of([{"a": SIX, "b": GAP, "c": TEXT}, {}])
    assert [made.next(0, []) for _ in range(4)] == [
        Unit(0, ("c",), (TEXT,)), Unit(0, ("b",), (GAP,)), Unit(0, ("a",), (SIX,)), Unit(1, (), ()),
    ]  # fmt: skip


def test_units_with_the_longest_known_cells_come_first() -> None:
    made = CellSchedule.of([{"a": SIX, "b": SEVEN, "c": GAP, "d": NEUTRALITY}])
    made.learn(SIX, 3.0)
    made.learn(GAP, 2.0)
    assert made.next(0, []) == Unit(0, ("a",), (SIX,))
    made.learn(NEUTRALITY, 2.0)
    assert made.next(0, []) == Unit(0, ("c", "d"), (GAP, NEUTRALITY))


@pytest.mark.parametrize(
    ("fitting", "seconds", "helps"), [(0.0, None, True), (3.0, None, False), (3.0, 6.0, False), (3.0, 6.1, True)]
)
def test_a_second_process_helps_where_the_rest_is_twice_as_long_as_fitting(
    fitting: float, seconds: float | None, helps: bool
) -> None:
    made = CellSchedule.of([{"a": SIX}])
    assert made.next(None, [0]) is None
    made.fitting[0] = fitting
    if seconds is not None:
        made.learn(SIX, seconds)
    assert (made.next(None, [0]) is not None) is helps


def test_the_rest_of_a_cell_follows_its_present_pass(now: Now) -> None:
    known = CellSchedule.of([])
    running = Running("x", SIX, started=990.0)
    assert running.rest(known) is None
    known.learn(SIX, 25.0)
    assert running.rest(known) == 15.0
    known.learn(SEVEN, 60.0)
    assert Running("x", EIGHT, started=990.0).rest(known) is None
    now.seconds = 1_030.0
    assert running.rest(known) == 0.0
    assert Running("fitting", None, started=990.0).rest(known) == 0.0
    running.advance(4, 20, "texts")
    assert (running.pass_started, running.heard, running.part) == (990.0, 1_030.0, (4, 20, "texts"))
    assert running.rest(known) == 40.0 * 16 / 4
    now.seconds = 1_040.0
    running.advance(8, 20, "texts")
    assert (running.pass_started, running.heard) == (990.0, 1_040.0)
    now.seconds = 1_050.0
    running.advance(8, 20, "pairs")
    assert running.pass_started == 1_040.0
    running.advance(1, 20, "pairs")
    assert running.pass_started == 1_050.0
    now.seconds = 1_060.0
    running.advance(1, 20, "pairs")
    assert running.pass_started == 1_050.0
    assert running.rest(known) == 190.0
    running.advance(1, 20, "pairs")
    assert running.pass_started == 1_050.0
    assert running.text() == "x: 1 of 20 pairs"
    running.advance(1, 1, "pairs")
    assert running.text() == "x"
    running.advance(1, 2, "pairs")
    assert running.text() == "x: 1 of 2 pairs"
    running.advance(1_000, 2_000, "pairs")
    assert running.text() == "x: 1,000 of 2,000 pairs"


def watched(now: Now, **options: object) -> tuple[Clock, list[tuple[int, int, str]]]:
    heard: list[tuple[int, int, str]] = []
    waiting = [SIX, SEVEN, GAP]
    return Clock(CellSchedule.of([]), lambda *news: heard.append(news), waiting, total=5, **options), heard


def test_a_clock_counts_what_is_stored_and_names_what_runs(now: Now) -> None:
    clock, heard = watched(now)
    assert (clock.done, clock.total, clock.seconds_left) == (2, 5, None)
    clock.begin("fitting linear")
    clock.begin("weat-6, linear", SIX, worker=1)
    assert heard == [(2, 5, "fitting linear"), (2, 5, "fitting linear; weat-6, linear")]
    clock.note(3, 9, "texts", 2)
    assert len(heard) == 2
    clock.note(3, 9, "texts", 1)
    clock.end(SIX, 3.0, 1)
    clock.give_up()
    assert (clock.done, clock.schedule.expected(SIX)) == (3, 3.0)
    clock.give_up(8)
    clock.tell()
    clock.finish()
    assert heard[2:] == [(2, 5, "fitting linear; weat-6, linear: 3 of 9 texts"), (3, 5, ""), (5, 5, "done")]


def test_the_estimate_begins_after_some_seconds_and_says_what_it_leaves_out(now: Now) -> None:
    clock, heard = watched(now, jobs=2)
    now.seconds = 1_004.9
    clock.begin("weat-6, x", SIX)
    clock._running[0].started = now.seconds
    clock.end(SIX, 40.0)
    clock.tell()
    assert heard[-1][2] == ""
    now.seconds = 1_005.0
    clock.tell()
    assert heard[-1][2] == "at least 20 s left"  # weat-7 as long as another one of its view; nli-gap unknown
    clock.begin("weat-7, x", SEVEN)
    assert heard[-1][2] == "weat-7, x"
    clock.schedule.learn(SEVEN, 120.0)
    clock._running[0].started = now.seconds - 20
    clock.tell()
    assert heard[-1][2] == "weat-7, x, at least 50 s left"
    clock.begin("nli-gap, x", GAP, 1)
    clock.schedule.learn(GAP, 500.0)
    clock._running[1].started = now.seconds - 100
    clock.tell()
    assert heard[-1][2] == "weat-7, x; nli-gap, x, about 4 min left"
    clock.give_up()
    clock.give_up(1)
    clock.tell()
    assert heard[-1][2] == ""


def test_cells_that_took_no_time_are_not_long(now: Now) -> None:
    made = CellSchedule.of([{}, {"a": SIX, "b": SEVEN}])
    made.learn(SEVEN, 0.5)
    made.learn(SIX, 0.0)
    assert made.next(1, []) == Unit(1, ("b",), (SEVEN,))
    made.learn(SIX, 1.0)
    assert made.next(None, []) == Unit(1, ("a",), (SIX,))
    clock, heard = watched(now)
    clock.schedule.learn(SIX, 7.0)
    clock._waiting.clear()
    clock._running[0] = Running("weat-6, x", SIX, started=1_005.0)
    now.seconds = 1_005.0
    clock.tell()
    assert heard[-1][2] == "weat-6, x, about 5 s left"


def test_an_estimate_that_waits_for_a_known_question_is_whole(now: Now) -> None:
    heard: list[str] = []
    clock = Clock(CellSchedule.of([]), lambda done, total, what: heard.append(what), [SIX, SIX], total=2)
    clock.schedule.learn(SIX, 30.0)
    now.seconds += 5
    clock.tell()
    assert heard == ["about 60 s left"]


def test_a_cell_begins_while_there_is_time_for_it(now: Now) -> None:
    clock, _ = watched(now, budget=100.0)
    now.seconds += 60
    assert clock.seconds_left == 40.0
    assert clock.fits(SIX)
    clock.schedule.learn(SIX, 40.0)
    assert clock.fits(SIX)
    clock.schedule.learn(SIX, 40.2)
    assert not clock.fits(SIX)
    assert clock.fits(SEVEN)
    now.seconds += 39.5
    assert clock.fits(SEVEN)
    clock.part(1, 2, "texts")
    clock.schedule.seconds[SEVEN.label()] = [0.0]
    assert clock.fits(SEVEN)
    now.seconds += 0.5
    assert clock.seconds_left == 0.0
    assert not clock.fits(SEVEN)
    with pytest.raises(OutOfTime):
        clock.part(1, 2, "texts")


def test_a_cell_begins_while_there_are_tokens_for_it(now: Now) -> None:
    spent = [90]
    clock, _ = watched(now, tokens=100, spent=lambda: spent[0], needs={"weat-6": 10, "weat-7": 11})
    assert [clock.fits(one) for one in (SIX, SEVEN, EIGHT)] == [True, False, True]
    spent[0] = 99
    assert [clock.fits(one) for one in (SIX, EIGHT)] == [False, True]
    spent[0] = 100
    assert not clock.fits(EIGHT)
    clock.part(1, 2, "texts")
    spent[0] = 101
    with pytest.raises(OutOfTime):
        clock.part(1, 2, "texts")


def test_tokens_and_seconds_both_end_a_cell(now: Now) -> None:
    clock, _ = watched(now, tokens=10, budget=5.0, spent=lambda: 0)
    assert clock.fits(SIX)
    now.seconds += 5
    assert not clock.fits(SIX)
    with pytest.raises(OutOfTime):
        clock.part(1, 2, "texts")
    without, _ = watched(now)
    without.part(1, 2, "texts")
    assert without.fits(SIX)


def test_times_in_words() -> None:
    seconds = (0, 2, 7, 8, 42, 43, 89.9, 90, 100, 600, 5_399, 5_400, 9_000, 36_000)
    assert [duration(one) for one in seconds] == [
        "5 s", "5 s", "5 s", "10 s", "40 s", "45 s", "90 s", "2 min", "2 min", "10 min", "90 min", "1.5 h", "2.5 h",
        "10 h",
    ]  # fmt: skip


def test_every_pair_of_views_has_an_order() -> None:
    views = {"text": TEXT, "inference": GAP, "vectors": SIX}
    for (slow, first), (quick, second) in itertools.combinations(views.items(), 2):
        made = CellSchedule.of([{quick: second, slow: first}])
        assert made.next(None, []) == Unit(0, (slow,), (first,))
