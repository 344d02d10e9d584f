"""A PRM in the Qwen style: a two-output score head, read at a marker behind the prefix."""

from prmcal import TransformersPRM


class TerseQwenPRM(TransformersPRM):
    """The nano reward model, asked in the chat format but with every step marked."""

    checkpoint, marker, max_tokens = "nano:prm", "<extra_0>", 512

    def prefix_text(self, question, steps):
        system = "Please reason step by step, and put your final answer within \\boxed{}."
        messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
        chat = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return chat + self.marker.join(steps)

    def log_odds(self, head):
        return head[..., 1] - head[..., 0]

    def load_model(self):  # heavy imports where they are used: listing plugins loads no torch
        from prmcal.registry.models.architectures import QwenRewardModel
        from prmcal.registry.models.pretrained import load_pretrained

        model = load_pretrained(QwenRewardModel, self.checkpoint, self.dtype, self.device)
        return model.model, model.score
