"""The PRMs `token-classifier` and `sequence-classifier`: classifiers of transformers, described by arguments."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from prmcal.errors import InvalidArgumentsError, PluginFailedError
from prmcal.log_odds import LEAST
from prmcal.registry.contracts.plugin import FromClass, from_class
from prmcal.registry.llms.prompts import NATIVE, messages_of
from prmcal.registry.messages import reading
from prmcal.registry.models.checkpoints import chat_text, is_on_this_machine, resolve_checkpoint
from prmcal.registry.models.files import Head, weight_files
from prmcal.registry.prms.templates import check_template, filled
from prmcal.registry.prms.transformers import TransformersPRM

if TYPE_CHECKING:
    import torch

TRL_SEPARATOR = "\n"
"""The text that TRL's PRMTrainer writes behind each step by default."""

_CUT = "\uffff"
"""Stands between parts that are tokenized separately. No text has this character: Unicode does not assign it."""


@dataclass(eq=False)
class TokenClassifierPRM(TransformersPRM):
    r"""A token classifier of transformers (AutoModelForTokenClassification), such as one of TRL's PRMTrainer.

    The model reads the question and the steps, with a marker behind the prefix. The score is read at the last token of
    the marker. The defaults are TRL's: the first step follows the question directly, each step ends with a line break,
    and question, steps and line breaks are tokenized separately. The format does not define a score for the bare
    question, t = 0. Here the model reads the question and the marker.

    A softmax gives the log-odds of the outputs in `label` against all others. If the checkpoint's ``problem_type`` is
    ``multi_label_classification``, they are the output of the label itself. A single output is the log-odds itself.

    With `head`, the checkpoint is a language model, and the linear head is somewhere else. So of a checkpoint that
    ``prmcal train-prm`` writes, only the head is read, and the language model stays where it is.
    """

    auto_class: ClassVar[str] = "AutoModelForTokenClassification"

    marker: FromClass[str] = from_class(TRL_SEPARATOR)
    """The text behind a prefix. In YAML, escapes such as ``"\\n"`` need double quotation marks."""
    separator: str | None = None
    """The text between two steps. By default it is the marker, so that each step has a marker after it."""
    template: str = "{{ question }}{{ solution }}"
    """The text of a prefix for the model, in Jinja with `question`, `steps` and `solution` (the steps with separators
    between them). Or ``native``: the checkpoint's own chat template, with the question as the user's message and the
    solution as the assistant's."""
    system_prompt: str | None = None
    """The system message with ``template: native``. By default there is no system prompt."""
    tokenized: Literal["parts", "lines", "whole"] = "parts"
    """``parts``: the text before the steps, each step, each separator and the marker are tokenized separately, as TRL
    does. ``lines``: also each line of a step and each line break, and the question has a separator behind it, with
    which it is tokenized, as in Skywork's code. ``whole``: the text is tokenized as a whole."""
    label: int | str | list[int | str] | None = None
    """The index or the name of the output for a good step, or a list of several. By default the only output, or the
    second of two outputs without names."""
    scale: Literal["logit", "probability"] = "logit"
    """Meaning of a single output: log-odds, or a probability."""
    head: str = ""
    """The linear head, if it is not `score` of a classifier: the name of its weights in the checkpoint, such as
    ``v_head.summary``, or a file of safetensors with `score.weight` of shape (outputs, width) and `score.bias`, such as
    the ``model.safetensors`` that ``prmcal train-prm`` writes. Other weights in it are ignored."""

    def check_arguments(self) -> None:
        """Raise an error also if the template leaves out a part, or there is no such label or head."""
        super().check_arguments()
        if self.template != NATIVE:
            check_template(self.template)
        if self._head_file or is_on_this_machine(self.checkpoint):
            _ = self._good

    def identity(self) -> dict[str, Any]:
        """Return the identity, with the hash of a head's file instead of its path."""
        identity = super().identity()
        if self._head_file:
            identity["arguments"].pop("head")
            arrays = self._of_head("numpy", lambda weights, name: weights.get_tensor(name).astype("float32"))
            content = b"".join(array.tobytes() for array in arrays)
            identity["head"] = hashlib.sha256(content).hexdigest()[:16]
        return identity

    def prefix_text(self, question: str, steps: Sequence[str]) -> str:
        """Return the text of a prefix for the model, without the marker."""
        cut = "" if self.tokenized == "whole" else _CUT
        separator = self.marker if self.separator is None else self.separator
        between, marked_steps = f"{cut}{separator}{cut}", [f"{cut}{step}{cut}" for step in steps]
        if self.tokenized == "lines":
            marked_steps = [step.replace("\n", f"{cut}\n{cut}") for step in marked_steps]
            # The marker of the bare question is its separator.
            question, cut = (f"{question}{separator}", cut) if steps else (question, "")
        if self.template == NATIVE:
            return self._turns(question, between.join(marked_steps)) + cut
        return filled(self.template, question, marked_steps, between) + cut

    def _turns(self, question: str, solution: str) -> str:
        """The chat, up to where the assistant's message goes on behind the solution."""
        return chat_text(self.tokenizer, messages_of(question, self.system_prompt)) + solution

    def tokenize(self, text: str) -> list[int]:
        """Return the token ids of a text. A chat contains the special tokens."""
        if self.tokenized == "whole":
            return self._tokenization(text, add_special_tokens=self.template != NATIVE)
        ids: list[int] = []
        if self.template != NATIVE and self.tokenizer.bos_token_id is not None:
            ids.append(self.tokenizer.bos_token_id)
        for piece in filter(None, text.split(_CUT)):
            ids += self._piece_ids(piece)
        return ids

    @cached_property
    def _piece_ids(self) -> Callable[[str], list[int]]:
        return lru_cache(1000)(partial(self.tokenizer.encode, add_special_tokens=False, verbose=False))

    def log_odds(self, head: torch.Tensor) -> torch.Tensor:
        """Return the log-odds of the outputs in `label` against the others."""
        import torch

        good = self._good
        if head.shape[-1] == 1 and self.scale == "probability":
            return torch.logit(head[..., 0], eps=LEAST)
        if head.shape[-1] == 1 or self._several:
            return head[..., good[0]]
        bad = [index for index in range(head.shape[-1]) if index not in good]
        return torch.logsumexp(head[..., good], -1) - torch.logsumexp(head[..., bad], -1)

    def outputs(self) -> int:
        """Return the number of outputs of the head, or of the checkpoint's configuration."""
        return len(self._names)

    def head_weights(self) -> Head:
        """Return the weights of the head in the checkpoint. If the head is in a file, the checkpoint needs no head."""
        return {} if self._head_file else {f"{self.head or 'score'}.weight": self.outputs()}

    def load_model(self) -> tuple[torch.nn.Module, torch.nn.Module]:
        """Load the trunk and the linear head of the classifier.

        Raises a PluginFailedError if the model is no such classifier, or the head is for states of another width.
        """
        model = self.load_classifier()
        config = model.config
        # What attends to later tokens, too, gives a prefix another score in a longer text.
        attends_to_all = config.is_encoder_decoder or getattr(config, "use_bidirectional_attention", False)
        if attends_to_all or not hasattr(model, "score"):
            raise PluginFailedError(
                f"The checkpoint {self.checkpoint} is a {type(model).__name__}. The PRM '{self.plugin_name}' reads "
                "classifiers on causal language models with a head named 'score', such as those of Qwen2, Llama and "
                "Mistral. Write a class for it: see the page 'Add a PRM'."
            )
        if self.head:
            heads = self._of_head("pt", lambda weights, name: weights.get_tensor(name).float())
            for model_weight, head in zip((model.score.weight, model.score.bias), heads, strict=True):
                if model_weight.shape != head.shape:
                    raise PluginFailedError(
                        f"The head {self.head} has the shape {list(head.shape)}, and {self.checkpoint} needs "
                        f"{list(model_weight.shape)}. It was fitted to another language model."
                    )
                model_weight.data = head
        return model.base_model, model.score

    def load_classifier(self) -> Any:
        """Load the whole classifier. With `head`, its own head is random.

        Raises a PluginFailedError if the trunk cannot be loaded, or transformers has no classifier of its type.
        """
        import transformers

        from prmcal.registry.models.pretrained import load_pretrained

        auto = getattr(transformers, self.auto_class)
        if self.head:
            return classifier_on_trunk(self, auto, self.outputs(), self.head)
        return load_pretrained(auto, self.checkpoint, self.dtype, self.device)

    @property
    def _head_file(self) -> bool:
        return self.head.endswith(".safetensors")

    def _of_head(self, framework: str, read: Callable[[Any, str], Any]) -> tuple[Any, Any]:
        """Apply `read` to the weight and to the bias of `head` in its file of safetensors, and return both results."""
        from safetensors import safe_open

        files, name = [Path(self.head).expanduser()], "score"
        if not self._head_file:
            files, name = weight_files(resolve_checkpoint(self.checkpoint)), self.head
        advice = (
            "Give 'head' the name of weights in the checkpoint, or a file of safetensors with score.weight and "
            "score.bias, as `prmcal train-prm` writes."
        )
        values_by_name: dict[str, Any] = {}
        with reading(f"The head {self.head!r} cannot be read", advice, InvalidArgumentsError):
            for file in files:
                with safe_open(file, framework) as weights:
                    names = {f"{name}.weight", f"{name}.bias"} & set(weights.keys())
                    values_by_name |= {key: read(weights, key) for key in names}
            return values_by_name[f"{name}.weight"], values_by_name[f"{name}.bias"]

    @property
    def _several(self) -> bool:
        """True if the outputs are independent of each other."""
        return self._config.get("problem_type") == "multi_label_classification"

    @cached_property
    def _names(self) -> list[str]:
        """The names of the outputs. Outputs of a `head` have no names."""
        if not self.head:
            labels = self._config.get("id2label") or {}
            count = len(labels) or int(self._config.get("num_labels") or 2)
            return [str(labels.get(str(index), f"LABEL_{index}")) for index in range(count)]
        (outputs, *_), _ = self._of_head("numpy", lambda weights, name: weights.get_slice(name).get_shape())
        return [f"LABEL_{index}" for index in range(outputs)]

    @cached_property
    def _good(self) -> list[int]:
        """The indices of the outputs for a good step."""
        names = self._names
        shown = ", ".join(f"{index} ({name})" for index, name in enumerate(names))
        if self.label is None:
            if len(names) > 2 or (len(names) == 2 and names != ["LABEL_0", "LABEL_1"]):
                raise InvalidArgumentsError(
                    f"Set 'label' to the output of {self.checkpoint} for a good step. It has {shown}."
                )
            return [len(names) - 1]
        places = []
        for label in self.label if isinstance(self.label, list) else [self.label]:
            place = names.index(label) if label in names else label
            if not isinstance(place, int) or not 0 <= place < len(names):
                raise InvalidArgumentsError(f"{self.checkpoint} has no output {label!r} for 'label'. It has {shown}.")
            places.append(place)
        most = 1 if self._several else max(1, len(names) - 1)
        if not places or len(set(places)) > most:
            raise InvalidArgumentsError(
                f"'label' must name {'one' if self._several else 'some, but not all,'} of the outputs of "
                f"{self.checkpoint}, which has {shown}. Got {self.label}."
            )
        return sorted(set(places))


@dataclass(eq=False)
class SequenceClassifierPRM(TokenClassifierPRM):
    """A sequence classifier of transformers (AutoModelForSequenceClassification), as reward models are.

    By default, unlike `token-classifier`, it reads the chat of the question and the solution in the checkpoint's own
    chat template, to the end of the assistant's turn. As in transformers, the score of a prefix is read at its last
    token, without padding tokens. A reward of a Bradley-Terry model counts as log-odds. The score orders solutions, and
    is no probability before it is calibrated.
    """

    auto_class = "AutoModelForSequenceClassification"

    marker: FromClass[str] = from_class("")
    separator: str | None = "\n\n"
    template: str = NATIVE
    tokenized: Literal["parts", "whole"] = "whole"

    def _turns(self, question: str, solution: str) -> str:
        """The chat with the assistant's whole turn."""
        messages = [*messages_of(question, self.system_prompt), {"role": "assistant", "content": solution}]
        return chat_text(self.tokenizer, messages, generating=False)

    def tokenize(self, text: str) -> list[int]:
        """Return the token ids of a text, without padding tokens at the end."""
        ids = super().tokenize(text)
        while len(ids) > 1 and ids[-1] == self._config.get("pad_token_id"):
            ids.pop()
        return ids


def classifier_on_trunk(prm: TransformersPRM, auto: Any, outputs: int, head: str = "") -> Any:
    """Load the trunk of a language model into a classifier of transformers with a new, random linear head.

    `auto` is the Auto class of the classifier, and `head` is the name of weights in the checkpoint that are left out.
    Raises a PluginFailedError if the trunk cannot be loaded, or transformers has no such classifier of its type.
    """
    import torch
    from transformers import AutoModel

    from prmcal.registry.models.pretrained import load_pretrained

    trunk: Any = load_pretrained(AutoModel, prm.checkpoint, prm.dtype, prm.device, head)
    trunk.config.num_labels = outputs
    try:
        with torch.device("meta"):
            model = auto.from_config(trunk.config)
    except ValueError as error:
        kind = trunk.config.model_type
        classifier = "token classifier" if "Token" in auto.__name__ else "sequence classifier"
        raise PluginFailedError(f"transformers has no {classifier} of the type '{kind}'.") from error
    setattr(model, model.base_model_prefix, trunk)
    if hasattr(model, "score"):
        model.score = torch.nn.Linear(trunk.config.hidden_size, outputs)
    return model
