from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from turngraph.config import default_settings
from turngraph.config.schema_root import Cost, Models
from turngraph.replay.cost import CacheModel, Part, Prices, payoff, prices_of, shared_prefix, summed
from turngraph.tokens import EstimateCounter

NOON = datetime(2026, 3, 16, 12, tzinfo=UTC)
PRICES = Prices(input=3.0, output=15.0, cache_read=0.3, cache_write=3.75, source="test")
COUNTER = EstimateCounter()
RULES = Cost.model_validate({"cacheTtl": "5m", "minCacheTokens": 100})


def parts(*texts: str) -> list[Part]:
    return [Part(text, COUNTER.text(text), text) for text in texts]


def model(prices: Prices | None = PRICES) -> CacheModel:
    return CacheModel(prices, RULES, COUNTER)


def test_the_first_request_is_written_to_the_cache() -> None:
    cost = model().call(parts("a" * 800), NOON, 10)
    assert (cost.cache_read, cost.cache_write, cost.uncached, cost.warm) == (0, 200, 0, False)
    assert cost.usd == (200 * 3.75 + 10 * 15) / 1e6


def test_what_both_requests_begin_with_is_read_while_the_cache_is_warm() -> None:
    cache = model()
    cache.call(parts("a" * 800, "b" * 400), NOON, 0)
    cost = cache.call(parts("a" * 800, "b" * 400, "c" * 40), NOON + timedelta(minutes=5), 0)
    assert (cost.cache_read, cost.cache_write) == (300, 10)


def test_a_cold_cache_is_written_anew() -> None:
    cache = model()
    cache.call(parts("a" * 800), NOON, 0)
    cost = cache.call(parts("a" * 800, "b" * 40), NOON + timedelta(minutes=5, seconds=1), 0)
    assert (cost.cache_read, cost.cache_write, cost.warm) == (0, 210, False)


def test_a_prompt_below_the_smallest_prefix_is_not_cached() -> None:
    cost = model().call(parts("a" * 396), NOON, 0)
    assert (cost.cache_write, cost.uncached) == (0, 99)


def test_of_the_part_that_differs_the_common_beginning_counts() -> None:
    assert shared_prefix(parts("same", "abcdefgh" + "x" * 8), parts("same", "abcdefgh" + "y" * 8), COUNTER) == 1 + 2
    assert shared_prefix(parts("one"), parts("two"), COUNTER) == 0


def test_a_model_without_a_price_has_no_cost() -> None:
    cost = model(None).call(parts("a" * 800), NOON, 10)
    assert cost.usd is None
    assert summed([cost])["usd"] is None


def test_prices_come_from_the_settings_before_the_table() -> None:
    table = prices_of("anthropic:claude-sonnet-4-5", Models(), default_settings().cost)
    assert table is not None
    assert (table.input, table.cache_read) == (3, 0.3)
    assert "packaged table" in table.source
    entry = {"id": "claude-sonnet-4-5", "cost": {"input": 1.0}}
    own = Models.model_validate({"providers": {"anthropic": {"models": [entry]}}})
    mine = prices_of("anthropic:claude-sonnet-4-5", own, default_settings().cost)
    assert mine is not None
    assert (mine.input, mine.output) == (1.0, 15)
    assert "settings" in mine.source
    assert prices_of("nobody:nothing", Models(), default_settings().cost) is None


def test_an_hour_of_cache_has_its_own_write_price() -> None:
    hour = prices_of("anthropic:claude-sonnet-4-5", Models(), Cost.model_validate({"cacheTtl": "1h"}))
    assert hour is not None
    assert hour.cache_write == 6


def test_a_pruning_pays_when_later_reads_save_more_than_the_rewrite() -> None:
    cache = model()
    cache.call(parts("a" * 4000), NOON, 0)
    warm = cache.call(parts("a" * 4000), NOON, 0)
    few = payoff(3, 1000, 5000, [warm] * 2, PRICES)
    many = payoff(3, 1000, 5000, [warm] * 100, PRICES)
    assert not few.paid
    assert many.paid
    assert few.spent_usd == many.spent_usd == 5000 * (3.75 - 0.3) / 1e6


@given(st.lists(st.lists(st.sampled_from(["a" * 500, "b" * 700, "c" * 90]), max_size=6), max_size=6))
def test_read_written_and_plain_tokens_add_up_to_the_prompt(requests: list[list[str]]) -> None:
    cache = model()
    for number, texts in enumerate(requests):
        cost = cache.call(parts(*texts), NOON + timedelta(minutes=number), 0)
        assert cost.cache_read + cost.cache_write + cost.uncached == cost.prompt_tokens
