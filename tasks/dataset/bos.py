"""Which special tokens a dataset's prompts have in front, in words, and whether that is what the model asks for."""

from collections.abc import Iterable, Sequence

from tasks.dataset.tokenizer import Tokenizer


def bos_words(tokenizer: Tokenizer, *, is_chat: bool, document: bool) -> str:
    """Which special tokens the prompts get."""
    if document:
        return "document: " + ("BOS" if tokenizer.bos_token_id is not None else "EOS, for want of BOS,") + " in front"
    if tokenizer.bos_policy == "always":
        return f"{'chat template' if is_chat else 'text'}: exactly one BOS in front"
    if is_chat:
        return "chat template: no special tokens added"
    if tokenizer.bos_policy == "never":
        return "text: no BOS"
    return "text: the tokenizer's post-processor adds " + ("BOS" if tokenizer.adds_bos() else "no BOS")


def lacks_bos(prompts: Iterable[Sequence[int]], *, tokenizer: Tokenizer, is_chat: bool) -> bool:
    """Whether a prompt, given by its token ids, lacks the BOS that the model's own files ask for."""
    if tokenizer.bos_policy != "auto":
        return False
    asked = tokenizer.adds_bos() if is_chat else tokenizer.asks_for_bos
    return asked and any(list(token_ids[:1]) != [tokenizer.bos_token_id] for token_ids in prompts)


def lack_words(name: str, *, is_chat: bool) -> str:
    """What is odd about the special tokens of the dataset `name` where lacks_bos found it."""
    if is_chat:
        return f"{name}: the tokenizer puts BOS before plain text, the chat template does not: check the model"
    return f"{name}: tokenizer_config.json asks for BOS and tokenizer.json does not add it: prompts have none"
