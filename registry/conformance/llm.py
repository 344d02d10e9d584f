"""The checks for LLMs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from unittest import SkipTest

from prmcal.registry.conformance.plugin import expect, further_checks
from prmcal.registry.contracts import results
from prmcal.registry.contracts.data import Completion, GenerationRequest, Prefix, Sampling
from prmcal.registry.contracts.models import LLM
from prmcal.steps import join_steps, split_steps

_QUESTIONS = (
    "Start with 37 and keep two digits. a) add 15, b) subtract 8, c) multiply by 3.",
    "Begin at 05, keeping two digits. a) subtract 6, b) add 12, c) add 4, d) multiply by 2.",
    "Start with 64 and keep two digits. a) add 3, b) add 18, c) subtract 7.",
)
_BARE = tuple(Prefix(question) for question in _QUESTIONS)
_SAMPLING = Sampling(max_tokens=64)
_VARIED = replace(_SAMPLING, temperature=1.5)
"""High enough that even a policy with little variation gives different texts."""
_SAMPLES = 6
_SEED = 20_240

Completions = list[list[Completion]]


def _generate(
    plugin: LLM, prefixes: Sequence[Prefix], n: int = _SAMPLES, sampling: Sampling = _SAMPLING, seed: int = _SEED
) -> Completions:
    """Completions, after a check of their number and of each of them."""
    completions = plugin.generate(prefixes, n, sampling, seed)
    results.require_length(completions, len(prefixes), "lists of completions")
    for of_prefix in completions:
        results.check_completions(of_prefix, n)
    return completions


def _texts(completions: Completions) -> list[str]:
    return [completion.text for completion in chain(*completions)]


def check_n_completions_of_each_prefix(plugin: LLM) -> None:
    """``generate`` returns n completions of each prefix, and nothing for no prefixes."""
    _generate(plugin, _BARE)
    _generate(plugin, _BARE[:1], n=1)
    expect(plugin.generate([], 2, _SAMPLING, _SEED) == [], "No prefixes must give no completions. Loop over them.")


def check_token_counts(plugin: LLM) -> None:
    """`tokens` counts the tokens of a completion. Costs and budgets depend on it."""
    for sampling in (_SAMPLING, replace(_SAMPLING, max_tokens=4)):
        for completion in chain(*_generate(plugin, _BARE, sampling=sampling)):
            tokens, limit = completion.tokens, sampling.max_tokens
            is_right = tokens <= limit and (tokens > 0 or not completion.text)
            expect(
                is_right,
                f"'tokens' must count the completion's tokens, at most max_tokens = {limit}. Got "
                f"{completion.tokens!r} for {completion.text!r}. Count the tokens of the text with the LLM's "
                "tokenizer, and stop at the limit.",
            )


def check_finish_reasons(plugin: LLM) -> None:
    """A completion without stop strings ends with 'end', or with 'length' if it was cut off."""
    for completion in chain(*_generate(plugin, _BARE)):
        reason, is_full = completion.finish_reason, completion.tokens >= _SAMPLING.max_tokens
        expect(
            reason in ("end", "length"),
            "Without stop strings, 'finish_reason' must be 'end' (at the LLM's end token) or 'length'. Got "
            f"{reason!r}. Translate the reasons of your engine, such as eos to end.",
        )
        expect(
            reason == "end" or is_full,
            f"Only a completion of max_tokens tokens ends with 'length'. Got {completion.tokens} tokens. Write 'end' "
            "where the LLM ended the text itself.",
        )


def check_samples_differ(plugin: LLM) -> None:
    """The samples of a prefix differ and are independent, since success is defined for a stochastic policy."""
    completions = _generate(plugin, _BARE, sampling=_VARIED)
    varied = any(len({completion.text for completion in of_prefix}) > 1 for of_prefix in completions)
    expect(
        varied,
        f"At temperature 1.5 samples must differ. All {_SAMPLES} were equal for each question. Pass the temperature "
        "of 'sampling' on, and turn greedy decoding off.",
    )
    # A model may give equal samples for one prefix. But equal prefixes must not get copies of the same samples.
    copies = [
        [completion.text for completion in first] == [completion.text for completion in second]
        and len({completion.text for completion in first}) > 1
        for first, second in (_generate(plugin, (prefix, prefix), sampling=_VARIED) for prefix in _BARE)
    ]
    expect(
        not any(copies),
        "Samples must be independent. In one call, two equal prefixes got the same samples in the same order. "
        "Derive a seed for each position from 'seed', as in np.random.default_rng([seed, position]).",
    )


def check_the_seed_decides_the_texts(plugin: LLM) -> None:
    """The same input and seed give the same texts, and another seed gives others."""
    first, again = (_texts(_generate(plugin, _BARE, sampling=_VARIED)) for _ in range(2))
    different = sum(text != other_text for text, other_text in zip(first, again, strict=True))
    if different and not plugin.deterministic:
        raise SkipTest(f"It says that it is not deterministic, and {different} of {len(first)} texts differ.")
    expect(different == 0, f"The same seed must give equal texts. {different} of {len(first)} differ. Seed every call.")
    other = _texts(_generate(plugin, _BARE, sampling=_VARIED, seed=_SEED + 1))
    expect(first != other, "Another seed must give other texts. All were equal. Check that the seed is used.")


def check_stop_strings(plugin: LLM) -> None:
    """A completion ends before the first stop string."""
    texts = _texts(_generate(plugin, _BARE))
    common = Counter(character for text in texts for character in set(text) if character.isalnum()).most_common(1)
    if not common:
        raise SkipTest("Its completions have no letters or digits that could be a stop string.")
    stop = common[0][0]
    completions = _generate(plugin, _BARE, sampling=replace(_SAMPLING, stop=(stop,)))
    texts_with_stop = [text for text in _texts(completions) if stop in text]
    expect(
        not texts_with_stop,
        f"A completion must end before the stop string {stop!r}. Got {texts_with_stop[:1]}. Pass the list 'stop' of "
        "'sampling' on, or cut the text before its first match.",
    )
    reasons = {completion.finish_reason for completion in chain(*completions)}
    expect(
        "stop" in reasons,
        f"A completion that met the stop string {stop!r} must have the finish_reason 'stop'. Searches continue such "
        'prefixes. Write finish_reason = "stop" for them.',
    )


def check_a_prefix_is_continued(plugin: LLM) -> None:
    """A completion continues its prefix. It neither repeats the prefix nor starts again."""
    prefixes = []
    for prefix in _BARE:
        first = max((split_steps(text) for text in _texts(_generate(plugin, [prefix]))), key=len)
        steps = first[: max(1, len(first) // 2)] or ("First I look at the numbers.",)
        prefixes.append(Prefix(prefix.question, steps))
    continued = _generate(plugin, prefixes)
    repeated = restarted = 0
    for prefix, of_prefix in zip(prefixes, continued, strict=True):
        for completion in of_prefix:
            repeated += completion.text.lstrip().startswith(join_steps(prefix.steps))
            restarted += split_steps(completion.text)[:1] == prefix.steps[:1]
    total = len(prefixes) * _SAMPLES
    expect(
        repeated <= total / 2,
        f"A completion must not repeat its prefix. {repeated} of {total} do. Return the new tokens.",
    )
    expect(
        restarted <= total / 2,
        f"A prefix must be continued. {restarted} of {total} start again with its first step. Put the steps into the "
        "LLM's answer, and let it continue there.",
    )
    expect(
        _texts(continued) != _texts(_generate(plugin, _BARE)),
        "A prefix must be continued. Completions are the same with and without its steps. Check that they are used.",
    )


def check_a_batch_equals_its_requests(plugin: LLM) -> None:
    """``generate_batch`` returns what ``generate`` returns for each request. Few may differ by rounding."""
    requests = [GenerationRequest(prefix, count, _SEED + count) for count, prefix in enumerate(_BARE, start=1)]
    together = plugin.generate_batch(requests, _SAMPLING)
    alone = [plugin.generate([request.prefix], request.n, _SAMPLING, request.seed)[0] for request in requests]
    results.require_length(together, len(requests), "lists of completions")
    for of_request, request in zip(together, requests, strict=True):
        results.check_completions(of_request, request.n)
    different = sum(text != text_alone for text, text_alone in zip(_texts(together), _texts(alone), strict=True))
    expect(
        different <= 2,
        f"generate_batch() must return what generate() returns for each request. {different} of 6 texts differ. Use "
        "the seed and the n of each request.",
    )


CHECKS = further_checks(globals())
