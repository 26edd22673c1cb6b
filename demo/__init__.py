"""The demo: SmolLM2-135M in vLLM on this CPU, with and without specverify."""
