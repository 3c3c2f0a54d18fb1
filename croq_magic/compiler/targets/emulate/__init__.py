"""The emulator: CUDA text run by the processor, one fiber per CUDA thread."""
