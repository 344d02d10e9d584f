"""Links inside components of the pages."""

from __future__ import annotations

__all__ = ["OPEN_LINKS_HERE"]

# Streamlit opens the page of the address when the browser goes through its history, without loading itself again.
OPEN_LINKS_HERE = """
function openLinksHere(root) {
  if (root.opensLinks) return;
  root.opensLinks = true;
  root.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    history.pushState({}, "", link.href);
    dispatchEvent(new PopStateEvent("popstate"));
  });
}
"""
"""A function of JavaScript. After ``openLinksHere(root)``, links below this element open without a new start."""
