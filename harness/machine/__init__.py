"""What the machine has: GPUs, processor, versions of packages. What a plan asks of it belongs in `costs`."""
