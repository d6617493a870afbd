"""An engine without a model, which answers when its script says: what measures the measuring."""
