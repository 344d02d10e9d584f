// Shows the HTML of a page. Streamlit opens the page of the address when the browser goes through its history, without
// loading itself again, so links are opened in this way.
export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".shown")
  if (root.shown === data) return
  root.onclick = (event) => {
    const link = event.target.closest("a")
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return
    event.preventDefault()
    history.pushState({}, "", link.href)
    dispatchEvent(new PopStateEvent("popstate"))
  }
  root.shown = data
  root.innerHTML = data
}
