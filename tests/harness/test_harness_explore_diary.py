"""`harness.explore.search.diary`: a list of tries that stays small, and counts that lose nothing."""

from __future__ import annotations

from harness.explore.search.diary import Diary, Result, Try


def one(number: int, result: Result = Result.RIGHT) -> Try:
    return Try(at_s=number, duration_s=1.0, purpose="new", lane="Fetch", how="late answer", result=result)


def test_a_long_search_keeps_few_tries_all_that_are_out_of_the_ordinary_and_all_counts() -> None:
    diary = Diary(tries_max=100)
    for number in range(5_000):
        diary.note(one(number, Result.SUSPICIOUS if number % 500 == 0 else Result.RIGHT))
    document = diary.document()
    tries = document["tries"]
    assert len(tries) <= 100
    assert [each[0] for each in tries if each[5] == "suspicious"] == list(range(0, 5_000, 500))
    assert [each[0] for each in tries] == sorted(each[0] for each in tries)
    assert {each["result"]: each["count"] for each in document["counts"]} == {"suspicious": 10, "as it should": 4_990}
    assert document["shown_of_ordinary"] > 1


def test_also_a_search_in_which_everything_is_wrong_stays_small() -> None:
    diary = Diary(tries_max=100)
    for number in range(1_000):
        diary.note(one(number, Result.NOTHING))
    assert len(diary.document()["tries"]) <= 100
