"""Text out of templates: the files a bundle ships, and chats in a model's own format."""

from specc.render.bundle_readme import bundle_readme
from specc.render.chat import Message, chat_prompt
from specc.render.quantities import byte_count
from specc.render.templates import render

__all__ = ["Message", "bundle_readme", "byte_count", "chat_prompt", "render"]
