"""What tokens cost, by the price library's offline data. An unknown price is None, never a guess and never zero."""

from harness.records import Usage


def price_usd(usage: Usage, model: str | None, base_url: str | None) -> float | None:
    """Return the price of `usage` at `base_url` (None: OpenAI's own address), or None where it is not known.

    Unknown are: tokens that the endpoint did not tell, a model without a listed price, an address of no listed
    provider (any local server).
    """
    if model is None or usage.input is None or usage.output is None:
        return None
    import genai_prices  # noqa: PLC0415 - its data takes a tenth of a second to load

    tokens = genai_prices.Usage(
        input_tokens=usage.input, cache_read_tokens=usage.cached or 0, output_tokens=usage.output
    )
    try:
        found = genai_prices.calc_price(tokens, model, provider_api_url=base_url or "https://api.openai.com/v1")
    except LookupError:
        return None
    return float(found.total_price)
