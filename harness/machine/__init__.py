"""The machine: its GPUs, hardware and package versions. The resources that a plan needs belong in `costs`."""
