// Passes the value of each slider on to the charts while it moves. Streamlit's sliders are inputs of the type range, whose
// text for screen readers changes with their value. Vega shows an input of this type for each signal of a chart.
export default function ({ data }) {
  const pass = () => {
    for (const name of data) {
      const slider = document.querySelector(`.st-key-slider-${name} input[type="range"]`)
      for (const signal of slider ? document.querySelectorAll(`.vega-bind input[name="${name}"]`) : []) {
        if (signal.value !== slider.value) {
          signal.value = slider.value
          signal.dispatchEvent(new Event("input", { bubbles: true }))
        }
      }
    }
  }
  const observer = new MutationObserver(pass)
  observer.observe(document.body, { subtree: true, childList: true, attributeFilter: ["aria-valuetext"] })
  pass()
  return () => observer.disconnect()
}
