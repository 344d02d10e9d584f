"""The calibrator `quantile-lora`: fine-tunes the PRM by LoRA to predict quantiles of the success probability."""
