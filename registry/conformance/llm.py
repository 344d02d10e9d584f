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
    expect(plugin.generate([], 2, _SAMPLING, _SEED) == [], "no prefixes must give")


def check_token_counts(plugin: LLM) -> None:
    """`tokens` counts the tokens of a completion. Costs and budgets depend on it."""
    for sampling in (_SAMPLING, replace(_SAMPLING, max_tokens=4)):
        for completion in chain(*_generate(plugin, _BARE, sampling=sampling)):
            tokens, limit = completion.tokens, sampling.max_tokens
            is_right = tokens <= limit and (tokens > 0 or not completion.text)
            expect(is_right, "tokens must count the", most=limit, completion=completion)


def check_finish_reasons(plugin: LLM) -> None:
    """A completion without stop strings ends with 'end', or with 'length' if it was cut off."""
    for completion in chain(*_generate(plugin, _BARE)):
        reason, is_full = completion.finish_reason, completion.tokens >= _SAMPLING.max_tokens
        expect(reason in ("end", "length"), "without stop strings finish_reason", reason=reason)
        expect(reason == "end" or is_full, "only a completion of", completion=completion)


def check_samples_differ(plugin: LLM) -> None:
    """The samples of a prefix differ and are independent, since success is defined for a stochastic policy."""
    completions = _generate(plugin, _BARE, sampling=_VARIED)
    varied = any(len({completion.text for completion in of_prefix}) > 1 for of_prefix in completions)
    expect(varied, "at temperature samples must", samples=_SAMPLES)
    # A model may give equal samples for one prefix. But equal prefixes must not get copies of the same samples.
    copies = [
        [completion.text for completion in first] == [completion.text for completion in second]
        and len({completion.text for completion in first}) > 1
        for first, second in (_generate(plugin, (prefix, prefix), sampling=_VARIED) for prefix in _BARE)
    ]
    expect(not any(copies), "samples must be independent")


def check_the_seed_decides_the_texts(plugin: LLM) -> None:
    """The same input and seed give the same texts, and another seed gives others."""
    first, again = (_texts(_generate(plugin, _BARE, sampling=_VARIED)) for _ in range(2))
    different = sum(text != other_text for text, other_text in zip(first, again, strict=True))
    if different and not plugin.deterministic:
        raise SkipTest(f"It says that it is not deterministic, and {different} of {len(first)} texts differ.")
    expect(different == 0, "the same seed must", different=different, first=first)
    other = _texts(_generate(plugin, _BARE, sampling=_VARIED, seed=_SEED + 1))
    expect(first != other, "another seed must give")


def check_stop_strings(plugin: LLM) -> None:
    """A completion ends before the first stop string."""
    texts = _texts(_generate(plugin, _BARE))
    common = Counter(character for text in texts for character in set(text) if character.isalnum()).most_common(1)
    if not common:
        raise SkipTest("Its completions have no letters or digits that could be a stop string.")
    stop = common[0][0]
    completions = _generate(plugin, _BARE, sampling=replace(_SAMPLING, stop=(stop,)))
    texts_with_stop = [text for text in _texts(completions) if stop in text]
    expect(not texts_with_stop, "a completion must end", value=texts_with_stop[:1], stop=stop)
    reasons = {completion.finish_reason for completion in chain(*completions)}
    expect("stop" in reasons, "a completion that met", stop=stop)


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
    expect(repeated <= total / 2, "a completion must not", repeated=repeated, total=total)
    expect(restarted <= total / 2, "a prefix must be", restarted=restarted, total=total)
    expect(_texts(continued) != _texts(_generate(plugin, _BARE)), "a prefix must be continued")


def check_a_batch_equals_its_requests(plugin: LLM) -> None:
    """``generate_batch`` returns what ``generate`` returns for each request. Few may differ by rounding."""
    requests = [GenerationRequest(prefix, count, _SEED + count) for count, prefix in enumerate(_BARE, start=1)]
    together = plugin.generate_batch(requests, _SAMPLING)
    alone = [plugin.generate([request.prefix], request.n, _SAMPLING, request.seed)[0] for request in requests]
    results.require_length(together, len(requests), "lists of completions")
    for of_request, request in zip(together, requests, strict=True):
        results.check_completions(of_request, request.n)
    different = sum(text != text_alone for text, text_alone in zip(_texts(together), _texts(alone), strict=True))
    expect(different <= 2, "generate_batch() must return what", different=different)


CHECKS = further_checks(globals())
